// SPDX-License-Identifier: MIT

//! ring.rs: the ring ping-pong on tokio's tasks, a peer.
//!
//! WHAT IS MEASURED: see bench.h. R rings of N threads pass messages for M
//! rounds. Here a thread is a task. There are two programs, which differ in the
//! runtime. tokio-current has the current-thread runtime, with one native
//! thread, so P is 1. tokio-multi has the multi-thread runtime with P workers,
//! and the main thread, which makes the tasks and then waits. The runtimes are
//! as their builders make them, without I/O and timers. Optimized as by users,
//! with glibc's malloc.
//!
//! A BELL is what a thread waits for: a count of wakes, and a Notify to sleep
//! on. The Notify alone would lose wakes, as it keeps one at most. Its
//! documentation puts a count before it in the same way, to make a channel; n
//! wakes let n waits through. Rejected, with their speed where the bell has 1,
//! at P = 1 on either runtime (with P = 2 the ratios are the same within a
//! tenth):
//!
//!                       N = 2   N = 8
//!     unbounded_channel  0.96    0.63
//!     Semaphore          0.80    0.63
//!     channel(1)         0.38    0.21
//!
//! These three also take part in tokio's budget: a task that has gone on 128
//! times without being suspended is made to yield. A Notify does not.
//!
//! THE GATE is a semaphore without permits; when it is closed, all tasks go on.
//! The time goes from there to when the last task has counted itself. By then,
//! on the current-thread runtime no task has run; on the other, some have come
//! to the gate.
//!
//! Data that tasks share are leaked, as they live until the program ends; that
//! saves each task some reference counts. The JoinHandles are dropped. To make
//! the tasks from a task, instead of from the main thread, made no visible
//! difference.
//!
//! D: the size of a future is a constant. The D bytes are a box, which the
//! future owns across all that it awaits. They are written before the first
//! wait and checked at the end. They are on the heap, and so is a future.
//!
//! BLOCKS: a task blocks when polling it returns Pending. A future around the
//! loop counts that, in tasks of another type, so that the timed tasks have no
//! code for it. It counts all returns of Pending, also those for the budget, of
//! which a bell has none. The wait at the gate is not counted.
//!
//! EMPTY: P tasks make the others, each of which counts itself.
//!
//! BLOCKED: each task polls its wait once, counts itself if that was Pending,
//! and then goes on to await it. When it has counted itself, it is suspended,
//! and its waker is in the bell; with P > 1 the last tasks may be about to
//! return to the runtime. The code is written so that the future of this task
//! is as small as without the check: a task is allocated in multiples of 128
//! bytes, aligned to that.
//!
//! HOT OR COLD. The current-thread runtime is cold: it has one queue, first in,
//! first out; of 100,000 rings all had begun before the first ended. The
//! multi-thread runtime is hot, though not one ring at a time. A worker has a
//! place for the task that was woken last, which it runs next, but at most
//! three times in a row; then it takes from its own queue, of 256. Tasks that
//! the main thread has made runnable are in a queue of all workers. A worker
//! turns to this when it has no other task, and now and then. So some rings
//! take turns until they end, while all others wait: of 100,000 rings, N = 2,
//! with 10 to 1,000 rounds, 65 to 185 had begun when the first ended, and up to
//! about 400 with P = 2.
//!
//! EXIT STATUS. A panic is a failure: 1. Without memory the standard library
//! aborts.

pub mod bench;

use bench::{fail, resident, Bench, What};
use std::future::{poll_fn, Future};
use std::hint::black_box;
use std::panic;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::task::Poll::Ready;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::{Notify, Semaphore};

/// Data that all tasks share. Never freed, and neither are the bells.
struct Run {
    b: Bench,
    gate: Semaphore,      // opened by closing it
    alive: AtomicUsize,   // threads that have not ended
    ended: Notify,        // alive is 0
    waiting: AtomicUsize, // threads that have not blocked
    blocked: Notify,      // waiting is 0
    received: AtomicUsize,
    blocks: AtomicUsize,
    spoiled: AtomicUsize, // threads whose bytes did not keep their value
}

/// The wakes that a thread has not received, for which it waits.
#[derive(Default)]
struct Bell {
    wakes: AtomicUsize,
    notify: Notify,
}

/// A thread of a ring, as it begins.
struct Member {
    own: &'static Bell,
    right: &'static Bell,
    turn: usize, // rounds until it starts a round
}

pub fn run(b: Bench, mut builder: Builder) {
    panic::set_hook(Box::new(|why| fail(&why.to_string())));
    let runtime = builder.build().unwrap();
    let run: &'static Run = Box::leak(Box::new(Run::new(b)));
    runtime.block_on(async {
        match run.b.what {
            What::Ring => println!("{:.6}", run.rings().await.as_secs_f64()),
            What::Blocks => {
                run.rings().await;
                println!("{}", run.blocks.load(Relaxed));
            }
            What::Empty => println!("{:.6}", run.empty().await.as_secs_f64()),
            What::Blocked => println!("{}", run.blocked().await),
        }
    });
}

impl Run {
    fn new(b: Bench) -> Self {
        Run {
            gate: Semaphore::new(0),
            alive: b.threads().into(),
            ended: Notify::new(),
            waiting: b.threads().into(),
            blocked: Notify::new(),
            received: 0.into(),
            blocks: 0.into(),
            spoiled: 0.into(),
            b,
        }
    }

    /// Makes the rings, opens the gate, and returns the time until all end.
    async fn rings(&'static self) -> Duration {
        for _ in 0..self.b.r {
            self.ring();
        }
        let start = Instant::now();
        self.gate.close();
        self.ended.notified().await;
        let took = start.elapsed();
        let (received, all) = (self.received.load(Relaxed), self.b.messages());
        if received != all {
            fail(&format!("{received} of {all} messages were received"));
        }
        self.in_order();
        took
    }

    fn ring(&'static self) {
        let n = self.b.n;
        let bells = bells(n);
        for turn in 0..n {
            let (own, right) = (&bells[turn], &bells[(turn + 1) % n]);
            let member = Member { own, right, turn };
            if self.b.what == What::Blocks {
                tokio::spawn(self.member_counted(member));
            } else {
                tokio::spawn(self.member(member));
            }
        }
    }

    async fn member(&self, t: Member) {
        self.opened().await;
        let _life = Life::new(self);
        self.play(t).await;
    }

    /// Does the same, and counts how often it blocks.
    async fn member_counted(&self, t: Member) {
        self.opened().await;
        let _life = Life::new(self);
        let mut blocks = 0;
        let mut play = pin!(self.play(t));
        poll_fn(|context| {
            let polled = play.as_mut().poll(context);
            blocks += usize::from(polled.is_pending());
            polled
        })
        .await;
        self.blocks.fetch_add(blocks, Relaxed);
    }

    /// Returns when the gate is closed, as it is never acquired.
    async fn opened(&self) {
        let _ = self.gate.acquire().await;
    }

    /// A thread counts itself; the last to end announces that.
    fn end(&self) {
        if self.alive.fetch_sub(1, AcqRel) == 1 {
            self.ended.notify_one();
        }
    }

    /// The loop that is timed.
    async fn play(&self, mut t: Member) {
        let mut got = 0;
        for _ in 0..self.b.m {
            let starts = t.turn == 0;
            if starts {
                t.right.wake();
                t.turn = self.b.n;
            }
            t.own.wait().await;
            if !starts {
                t.right.wake();
            }
            t.turn -= 1;
            got += 1;
        }
        self.received.fetch_add(got, Relaxed);
    }

    /// Makes the threads, until all have counted themselves.
    async fn empty(&'static self) -> Duration {
        let (n, p) = (self.b.n, self.b.p);
        let start = Instant::now();
        for i in 0..p {
            let share = n / p + usize::from(i < n % p);
            tokio::spawn(self.maker(share));
        }
        self.ended.notified().await;
        start.elapsed()
    }

    async fn maker(&'static self, share: usize) {
        for _ in 0..share {
            tokio::spawn(async { self.end() });
        }
    }

    /// Returns the most resident bytes, less those before the first task.
    async fn blocked(&'static self) -> i64 {
        let before = resident(false);
        let bells = bells(self.b.n);
        for bell in bells {
            tokio::spawn(self.wait_once(bell));
        }
        self.blocked.notified().await;
        for bell in bells {
            bell.wake();
        }
        self.ended.notified().await;
        self.in_order();
        resident(true) - before
    }

    async fn wait_once(&self, bell: &Bell) {
        let life = Life::new(self);
        let mut wait = pin!(bell.wait());
        let first = poll_fn(|context| Ready(wait.as_mut().poll(context)));
        if first.await.is_pending() {
            life.run.one_waits();
            wait.await;
        }
    }

    /// The last task announces that.
    fn one_waits(&self) {
        if self.waiting.fetch_sub(1, AcqRel) == 1 {
            self.blocked.notify_one();
        }
    }

    fn in_order(&self) {
        let (spoiled, all) = (self.spoiled.load(Relaxed), self.b.threads());
        if spoiled != 0 {
            let ended = all - spoiled;
            fail(&format!("{ended} of {all} threads ended in order"));
        }
    }
}

/// A thread from its beginning to its end, with its bytes.
struct Life<'a> {
    run: &'a Run,
    space: Box<[u8]>,
}

impl<'a> Life<'a> {
    fn new(run: &'a Run) -> Self {
        let mut space = vec![b'D'; run.b.d].into_boxed_slice();
        black_box(&mut space);
        Life { run, space }
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        if self.space.iter().any(|&byte| byte != b'D') {
            self.run.spoiled.fetch_add(1, Relaxed);
        }
        self.run.end();
    }
}

fn bells(n: usize) -> &'static [Bell] {
    (0..n).map(|_| Bell::default()).collect::<Vec<_>>().leak()
}

impl Bell {
    fn wake(&self) {
        self.wakes.fetch_add(1, Release);
        self.notify.notify_one();
    }

    /// Only the thread that owns the bell waits.
    async fn wait(&self) {
        // Release in wake().
        while self.wakes.load(Acquire) == 0 {
            self.notify.notified().await;
        }
        self.wakes.fetch_sub(1, Relaxed);
    }
}
