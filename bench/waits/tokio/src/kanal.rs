// SPDX-License-Identifier: MIT

//! waits-kanal: the benchmarks of channels on tokio, with those of kanal.

fn main() {
    waits::run::<waits::kind::Kanal>();
}
