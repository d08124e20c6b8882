//! Waiting for several at once.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// Lets every task that is ready run first.
pub async fn yield_now() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs all of them side by side, in the caller's task; ends when all have ended.
pub async fn all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut under_way: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        under_way.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Runs both side by side, in the caller's task; ends when both have ended.
pub async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut one_ended, mut other_ended) = (false, false);
    poll_fn(|context| {
        one_ended = one_ended || one.as_mut().poll(context).is_ready();
        other_ended = other_ended || other.as_mut().poll(context).is_ready();
        if one_ended && other_ended { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// What comes first: the one's answer, or that the other ended.
pub async fn first<T>(wanted: impl Future<Output = T>, limit: impl Future<Output = ()>) -> Option<T> {
    let (mut wanted, mut limit) = (Box::pin(wanted), Box::pin(limit));
    poll_fn(|context| {
        if let Poll::Ready(answer) = wanted.as_mut().poll(context) {
            return Poll::Ready(Some(answer));
        }
        limit.as_mut().poll(context).map(|()| None)
    })
    .await
}
