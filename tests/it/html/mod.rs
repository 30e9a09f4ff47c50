//! The HTML parser against its oracles and against the clock.

mod cases;
mod clock;
mod differential;
mod hostile;
mod hostile_xpath;
mod notation;
mod oracle;
pub mod soup;
