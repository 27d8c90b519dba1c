// SPDX-License-Identifier: MIT

//! tokio-multi: the rings on tokio's multi-thread runtime, with P workers.

use ring::bench::Bench;
use tokio::runtime::Builder;

fn main() {
    let b = Bench::from_args();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(b.p);
    ring::run(b, builder);
}
