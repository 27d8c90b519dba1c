// SPDX-License-Identifier: MIT

//! bench.rs: the questions of the benchmark. The contract is bench.h.

use std::{env, fs, process};

const FAILED: i32 = 1;
const USAGE: i32 = 2;

#[derive(Clone, Copy, PartialEq)]
pub enum What {
    Ring,
    Blocks,
    Empty,
    Blocked,
}

/// A question. Numbers that it does not have are 1, but d is 0.
pub struct Bench {
    pub what: What,
    pub n: usize, // threads in a ring, or in all
    pub r: usize, // rings
    pub m: usize, // rounds
    pub d: usize, // more bytes
    pub p: usize, // native threads
}

impl Bench {
    /// Reads the command line, or ends the program.
    pub fn from_args() -> Self {
        let args: Vec<String> = env::args().skip(1).collect();
        let (what, numbers) = match args.first().map(String::as_str) {
            Some("blocks") => (What::Blocks, &args[1..]),
            Some("empty") => (What::Empty, &args[1..]),
            Some("blocked") => (What::Blocked, &args[1..]),
            _ => (What::Ring, &args[..]),
        };
        let mut b = Bench {
            what,
            n: 1,
            r: 1,
            m: 1,
            d: 0,
            p: 1,
        };
        b.fill(numbers);
        if b.threads() > i32::MAX as usize {
            usage("too many threads");
        }
        b
    }

    fn fill(&mut self, numbers: &[String]) {
        let Bench { n, r, m, d, p, .. } = self;
        // The place of each number, and its minimum.
        let form = match self.what {
            What::Empty => vec![(n, 1), (p, 1)],
            What::Blocked => vec![(n, 1), (d, 0), (p, 1)],
            _ => vec![(n, 1), (r, 1), (m, 1), (d, 0), (p, 1)],
        };
        if form.len() != numbers.len() {
            usage("too few or too many arguments");
        }
        for ((value, min), text) in form.into_iter().zip(numbers) {
            match number(text) {
                Some(v) if v >= min => *value = v,
                _ => usage("not a number, or out of range"),
            }
        }
    }

    pub fn threads(&self) -> usize {
        self.n * self.r
    }

    pub fn messages(&self) -> usize {
        self.threads() * self.m
    }
}

/// A decimal number: digits only.
fn number(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    let value = text.parse::<i32>().ok().filter(|_| digits)?;
    usize::try_from(value).ok()
}

fn name() -> String {
    env::args().next().unwrap_or_default()
}

pub fn usage(why: &str) -> ! {
    let name = name();
    eprintln!(
        "{name}: {why}
usage:
  {name} N R M D P         seconds, for rings
  {name} blocks N R M D P  how often threads blocked in them
  {name} empty NR P        seconds, to make and run threads
  {name} blocked NR D P    bytes, of threads that are blocked
N threads in a ring, R rings, M rounds, D more bytes of each (0 or more),
P native threads, NR threads"
    );
    process::exit(USAGE)
}

pub fn fail(why: &str) -> ! {
    eprintln!("{}: {why}", name());
    process::exit(FAILED)
}

/// Returns resident bytes: the most so far, or now.
pub fn resident(most: bool) -> i64 {
    let key = if most { "VmHWM:" } else { "VmRSS:" };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<i64>().ok());
    match kib {
        Some(kib) => kib * 1024,
        None => fail("/proc/self/status does not say how much is resident"),
    }
}
