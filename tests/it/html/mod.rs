//! The HTML parser against its oracles and against the clock.

mod cases;
mod differential;
mod hostile;
mod notation;
mod oracle;
mod soup;
