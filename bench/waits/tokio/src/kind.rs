// SPDX-License-Identifier: MIT

//! kind.rs: two kinds of channels, under one name.
//!
//! TOKIO's own bounded channel has one receiver, and room for at least one value.
//! So what needs several receivers, or none to be stored, has no counterpart.
//!
//! KANAL is the fastest of the channels that are often used with tokio (the
//! others tried: async-channel, flume). It has several receivers, and channels
//! without room. What waits in it must not be dropped, so it has no select.

use std::future::Future;

pub trait Send1<T>: Clone + Send + Sync + 'static {
    fn send(&self, value: T) -> impl Future<Output = ()> + Send;
}

pub trait Receive<T>: Send + Sync + 'static {
    /// None: closed, and empty.
    fn receive(&mut self) -> impl Future<Output = Option<T>> + Send;
    /// Another receiver of the same channel, if there can be one.
    fn another(&self) -> Option<Self>
    where
        Self: Sized;
}

pub trait Kind: 'static {
    const OWN: bool; // tokio's
    type S<T: Send + 'static>: Send1<T>;
    type R<T: Send + 'static>: Receive<T>;
    fn channel<T: Send + 'static>(room: usize) -> (Self::S<T>, Self::R<T>);
}

pub struct Tokio;
pub struct Kanal;

impl Kind for Tokio {
    const OWN: bool = true;
    type S<T: Send + 'static> = tokio::sync::mpsc::Sender<T>;
    type R<T: Send + 'static> = tokio::sync::mpsc::Receiver<T>;
    fn channel<T: Send + 'static>(room: usize) -> (Self::S<T>, Self::R<T>) {
        tokio::sync::mpsc::channel(room.max(1))
    }
}

impl Kind for Kanal {
    const OWN: bool = false;
    type S<T: Send + 'static> = kanal::AsyncSender<T>;
    type R<T: Send + 'static> = kanal::AsyncReceiver<T>;
    fn channel<T: Send + 'static>(room: usize) -> (Self::S<T>, Self::R<T>) {
        kanal::bounded_async(room)
    }
}

impl<T: Send + 'static> Send1<T> for tokio::sync::mpsc::Sender<T> {
    async fn send(&self, value: T) {
        // An error: the receiver has ended, and so does the benchmark.
        let _ = self.send(value).await;
    }
}

impl<T: Send + 'static> Receive<T> for tokio::sync::mpsc::Receiver<T> {
    async fn receive(&mut self) -> Option<T> {
        self.recv().await
    }
    fn another(&self) -> Option<Self> {
        None
    }
}

impl<T: Send + 'static> Send1<T> for kanal::AsyncSender<T> {
    async fn send(&self, value: T) {
        let _ = self.send(value).await;
    }
}

impl<T: Send + 'static> Receive<T> for kanal::AsyncReceiver<T> {
    async fn receive(&mut self) -> Option<T> {
        self.recv().await.ok()
    }
    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }
}
