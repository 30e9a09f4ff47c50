//! The HTML parser against its oracles and against the clock.

mod cases;
mod differential;
mod hostile;
mod hostile_xpath;
