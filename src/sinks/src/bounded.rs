//! A connection that reads no more than so many bytes: what a server says to us is short, and one that says more is not let to
//! fill the memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of which no more than so many bytes are read.
pub(crate) struct Bounded<S> {
    stream: S,
    left: usize,
}

impl<S> Bounded<S> {
    pub fn new(stream: S, left: usize) -> Bounded<S> {
        Bounded { stream, left }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other(
                "the server says more than a server of this kind should",
            )));
        }
        let room = self.left.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        let polled = Pin::new(&mut self.stream).poll_read(context, &mut part);
        let read = part.filled().len();
        buffer.advance(read);
        self.left -= read;
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn what_is_read_is_bounded_and_not_changed() {
        let source: Vec<u8> = (0..=255).collect();
        let mut read = Vec::new();
        Bounded::new(&source[..], 1_000).read_to_end(&mut read).await.unwrap();
        assert_eq!(read, source);
        read.clear();
        assert!(Bounded::new(&source[..], 100).read_to_end(&mut read).await.is_err());
        assert_eq!(read, source[..100]);
    }
}
