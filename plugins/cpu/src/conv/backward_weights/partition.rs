//! Partitions backward weights among workers.

use std::ops::Range;

use crate::threading::partition::{Threads, Workers, part};

/// A partition by weights, or by blocks of outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partition {
    /// Workers by blocks of output channels, by input channels, and by blocks of outputs.
    pub(crate) rows: usize,
    pub(crate) channels: usize,
    pub(crate) by_blocks: usize,
    /// Blocks of output channels (vectors or halves of vectors), input channels, and blocks of outputs.
    pub(crate) channel_blocks: usize,
    pub(crate) inputs: usize,
    pub(crate) blocks: usize,
}

/// The most sums of all blocks together for which workers get their own blocks.
pub(crate) const MAX_SUMS: usize = 1 << 14;

impl Partition {
    /// A worker's share.
    pub(crate) fn share(&self, worker: usize) -> WorkerShare {
        WorkerShare {
            channel_blocks: part(self.channel_blocks, self.rows, worker / self.channels % self.rows),
            channels: part(self.inputs, self.channels, worker % self.channels),
            blocks: part(self.blocks, self.by_blocks, worker / (self.channels * self.rows)),
        }
    }

    /// The most channel blocks and input channels of any worker.
    pub(crate) fn most(&self) -> (usize, usize) {
        (self.channel_blocks.div_ceil(self.rows), self.inputs.div_ceil(self.channels))
    }

    /// The fastest partition of `whole`; `time` estimates the channel blocks and input channels of one
    /// worker. Blocks are divided only if `may_divide_blocks`.
    pub(crate) fn best(
        whole: Self,
        threads: Threads,
        may_divide_blocks: bool,
        time: impl Fn(usize, usize) -> f64,
    ) -> (Self, Workers) {
        let Self { channel_blocks, inputs, blocks, .. } = whole;
        let one = time(channel_blocks, inputs);
        let most = threads.workers(one, usize::MAX).count();
        let (mut best, mut least) = (whole, one);
        let mut consider = |division: Self, time: f64| {
            if time < least {
                (best, least) = (division, time);
            }
        };
        if may_divide_blocks {
            let by_blocks = most.min(blocks);
            let share = blocks.div_ceil(by_blocks) as f64 / blocks as f64;
            consider(Self { by_blocks, ..whole }, one * share);
        }
        for rows in 1..=most.min(channel_blocks) {
            let division = Self { rows, channels: (most / rows).min(inputs), ..whole };
            let (channel_blocks, inputs) = division.most();
            consider(division, time(channel_blocks, inputs));
        }
        (best, threads.workers(one, best.rows * best.channels * best.by_blocks))
    }
}

/// The part of one worker.
pub(crate) struct WorkerShare {
    pub(crate) channel_blocks: Range<usize>,
    pub(crate) channels: Range<usize>,
    pub(crate) blocks: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many workers have each combination of output channel block, input channel and block of outputs.
    fn met(division: &Partition) -> Vec<usize> {
        let Partition { channel_blocks, inputs, blocks, .. } = *division;
        let mut met = vec![0; channel_blocks * inputs * blocks];
        for worker in 0..division.rows * division.channels * division.by_blocks {
            let share = division.share(worker);
            for channel_block in share.channel_blocks {
                for channel in share.channels.clone() {
                    for block in share.blocks.clone() {
                        met[(channel_block * inputs + channel) * blocks + block] += 1;
                    }
                }
            }
        }
        met
    }

    #[test]
    fn workers_cover_everything_once() {
        for (channel_blocks, inputs, blocks) in [(3, 1, 4), (6, 24, 1), (7, 5, 3), (1, 1, 9)] {
            for most in 1..7 {
                for may_divide_blocks in [false, true] {
                    let threads = Threads { most, ..Threads::default() };
                    let whole =
                        Partition { rows: 1, channels: 1, by_blocks: 1, channel_blocks, inputs, blocks };
                    let (division, by_blocks) =
                        Partition::best(whole, threads, may_divide_blocks, |channel_blocks, inputs| {
                            1e6 * (channel_blocks * inputs) as f64
                        });
                    assert_eq!(by_blocks.count(), division.rows * division.channels * division.by_blocks);
                    assert!(
                        division.by_blocks == 1
                            || (may_divide_blocks && division.rows * division.channels == 1)
                    );
                    assert!(met(&division).iter().all(|times| *times == 1), "{division:?}");
                }
            }
        }
    }

    #[test]
    fn images_are_divided_if_weights_do_not_divide_well() {
        let threads = Threads { most: 2, ..Threads::default() };
        let whole = Partition { rows: 1, channels: 1, by_blocks: 1, channel_blocks: 3, inputs: 1, blocks: 4 };
        let best = |may_divide_blocks| {
            let (division, _) = Partition::best(whole, threads, may_divide_blocks, |channel_blocks, _| {
                1e6 * channel_blocks as f64
            });
            [division.rows, division.channels, division.by_blocks]
        };
        assert_eq!([best(false), best(true)], [[2, 1, 1], [1, 1, 2]]);
    }
}
