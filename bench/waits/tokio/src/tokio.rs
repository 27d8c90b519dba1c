// SPDX-License-Identifier: MIT

//! waits-tokio: the benchmarks of waits on tokio, with its own channels.

fn main() {
    waits::run::<waits::kind::Tokio>();
}
