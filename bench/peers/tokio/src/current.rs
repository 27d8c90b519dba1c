// SPDX-License-Identifier: MIT

//! tokio-current: the rings on tokio's current-thread runtime.

use ring::bench::{usage, Bench};
use tokio::runtime::Builder;

fn main() {
    let b = Bench::from_args();
    if b.p != 1 {
        usage("the current-thread runtime has one native thread: P is 1");
    }
    ring::run(b, Builder::new_current_thread());
}
