//! What has to be done once an operation is committed, whoever waits for its answer.
//!
//! A request is dropped when its client goes or its time is over, and what it has begun to write is committed all the same.
//! So what must follow a commit does not stand behind the `await` of whoever asked for it: the operation says it here, and
//! the writer does it, before it answers.

/// What is known of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is on the disk.
    Stands,
    /// The disk failed, and whether it stands could not be told. The file may not be readable yet.
    Perhaps,
}

pub(super) type CommitHook = Box<dyn FnOnce(Committed) + Send>;
