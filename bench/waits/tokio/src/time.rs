// SPDX-License-Identifier: MIT

//! time.rs: timers, and waits with deadlines.
//!
//! CHURN resets timers (Sleep) that have been polled, since a timer is in the
//! wheel only from then on.
//!
//! The wheel has ticks of a millisecond, so lateness is at least half of that on
//! the average.

use crate::{per, took, Ask, Lines, Random, AHEAD};
use std::fs;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, Notify};
use tokio::time::{sleep, sleep_until, timeout, Instant, Sleep};

/// At least 10 s away, so that none fires while the benchmark runs.
fn deadline(r: &mut Random) -> Duration {
    Duration::from_secs(10) + Duration::from_nanos(r.next() % AHEAD.as_nanos() as u64)
}

async fn outstanding(m: usize) -> Vec<Pin<Box<Sleep>>> {
    let mut r = Random(1);
    let mut timers: Vec<_> = (0..m).map(|_| Box::pin(sleep(deadline(&mut r)))).collect();
    poll_fn(|cx| {
        for t in &mut timers {
            assert!(t.as_mut().poll(cx).is_pending());
        }
        Poll::Ready(())
    })
    .await;
    timers
}

pub async fn churn(a: Ask, random: bool) -> Lines {
    let mut timers = outstanding(a.m).await;
    let mut r = Random(2);
    let start = std::time::Instant::now();
    for _ in 0..a.n {
        let i = r.next() as usize % a.m;
        let d = if random { deadline(&mut r) } else { AHEAD };
        timers[i].as_mut().reset(Instant::now() + d);
    }
    took(per(start, a.n))
}

pub async fn timed(a: Ask) -> Lines {
    let timers = outstanding(a.m).await;
    let (there, mut arrived) = mpsc::channel::<u64>(1);
    let (back, mut returned) = mpsc::channel::<u64>(1);
    let n = a.n / 2;
    let start = std::time::Instant::now();
    let second = tokio::spawn(async move {
        for _ in 0..n {
            timeout(AHEAD, arrived.recv()).await.expect("too early");
            back.send(0).await.expect("open");
        }
    });
    let first = tokio::spawn(async move {
        for _ in 0..n {
            there.send(0).await.expect("open");
            timeout(AHEAD, returned.recv()).await.expect("too early");
        }
    });
    first.await.expect("a task");
    second.await.expect("a task");
    let t = per(start, 2 * n);
    drop(timers);
    took(t)
}

struct Burst {
    late: Vec<AtomicI64>,
    left: AtomicUsize,
    end: Notify,
}

async fn sleeper(burst: Arc<Burst>, i: usize, until: Instant) {
    sleep_until(until).await;
    let late = Instant::now().checked_duration_since(until);
    let late = late.map_or(-1, |d| d.as_nanos() as i64);
    burst.late[i].store(late, Ordering::Relaxed);
    if burst.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        burst.end.notify_one();
    }
}

/// The first deadline is M s after the start.
pub async fn sleepers(a: Ask) -> Lines {
    let burst = Arc::new(Burst {
        late: (0..a.n).map(|_| AtomicI64::new(-1)).collect(),
        left: AtomicUsize::new(a.n),
        end: Notify::new(),
    });
    let before = resident();
    let start = Instant::now();
    let first = start + Duration::from_secs(a.m as u64);
    for i in 0..a.n {
        let until = first + Duration::from_millis(i as u64 % 1000);
        tokio::spawn(sleeper(burst.clone(), i, until));
    }
    // Those that have not run yet do so before this one again.
    tokio::task::yield_now().await;
    let made = start.elapsed();
    assert!(
        first.elapsed().is_zero() && first - Instant::now() > Duration::from_millis(2300),
        "making took too long to see the sleepers idle"
    );
    sleep_until(first - Duration::from_millis(2300)).await;
    let (bytes, cpu, then) = (resident() - before, used(), Instant::now());
    sleep(Duration::from_secs(2)).await;
    let idle = (used() - cpu) / then.elapsed().as_secs_f64() * 100.0;
    burst.end.notified().await;
    let mut late: Vec<_> = burst
        .late
        .iter()
        .map(|l| l.load(Ordering::Relaxed))
        .collect();
    late.sort_unstable();
    assert!(late[0] >= 0, "a sleeper was woken too early");
    let us = |i: usize| late[i] as f64 / 1e3;
    vec![
        (".make_ns", made.as_nanos() as f64 / a.n as f64),
        (".bytes", bytes / a.n as f64),
        (".idle_cpu_percent", idle),
        (".late_median_us", us(a.n / 2)),
        (".late_99_us", us(a.n - 1 - a.n / 100)),
        (".late_max_us", us(a.n - 1)),
    ]
}

fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("/proc/self/status") * 1024.0
}

extern "C" {
    fn clock() -> std::ffi::c_long;
}

/// The seconds of the processors.
fn used() -> f64 {
    // Sound: POSIX has it return microseconds, and take no argument.
    unsafe { clock() as f64 / 1e6 }
}
