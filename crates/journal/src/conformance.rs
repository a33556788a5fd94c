//! What every engine must do, as tests. [`conformance_suite!`](crate::conformance_suite) makes one of each case.
//!
//! A case is given a way to make fixtures and panics when a promise is broken. Errors are compared by their messages:
//! those carry every fact an error has.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these are tests; they are compiled into a library"
)]

mod appending;
mod following;
mod forking;
mod keys;
mod kit;
mod listing;
mod model;
mod moving;
mod owners;
mod payloads;
mod reading;
mod snapshots;
mod standing;
mod sweeping;

use std::any::Any;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use weir_blobs::Blobs;

use crate::port::Journal;

pub use appending::*;
pub use following::*;
pub use forking::*;
pub use keys::*;
pub use listing::*;
pub use model::model;
pub use moving::*;
pub use owners::*;
pub use payloads::*;
pub use reading::*;
pub use snapshots::*;
pub use standing::*;
pub use sweeping::{Sweeping, SweptBlobs, a_sweep_at_any_moment_takes_nothing_acknowledged};

/// A journal under test, empty at first.
pub struct Fixture {
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The blob store it uses, through [`SweptBlobs`].
    pub blobs: Arc<dyn Blobs>,
    /// The collector of that store.
    pub sweeping: Arc<Sweeping>,
    /// Opens the same data again, as another process would; the first handle may still be open.
    pub reopen: Reopen,
    /// Whatever must live as long as the journal, such as its directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Opens a fixture's data once more.
pub type Reopen = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Journal>> + Send + Sync>;

/// Makes a fresh fixture.
pub type Make = fn() -> BoxFuture<'static, Fixture>;

/// Makes a module `conformance` with one test per promise. `$make` names an `async fn() -> Fixture`.
#[macro_export]
macro_rules! conformance_suite {
    ($make:path) => {
        mod conformance {
            use super::*;

            #[test]
            fn model() {
                $crate::conformance::model(|| Box::pin($make()));
            }

            $crate::conformance_suite! { @cases $make,
                seqs_have_no_gaps
                expectations_hold_or_nothing_happens
                parts_are_appended_together_or_not_at_all
                later_parts_see_earlier_ones
                racing_writers_never_share_a_seq
                racing_expectations_have_one_winner
                an_id_names_one_event
                branches_are_not_appended_into_being
                requests_beyond_the_limits_are_refused
                time_never_runs_backwards
                a_repeated_key_returns_the_first_result
                a_key_is_asked_before_anything_else
                a_key_names_one_content
                a_repetition_must_line_up
                racing_repetitions_have_one_winner
                keys_belong_to_one_branch
                keys_are_listed
                a_part_is_found_by_its_key
                owners_claim_hold_and_release
                an_owner_holds_all_branches
                attributes_are_found_by_every_filter
                listings_are_paged_in_a_stable_order
                what_is_due_comes_in_order
                streams_are_summed_up
                branches_are_listed_parents_first
                a_fork_shares_and_never_touches_its_parent
                a_fork_of_a_fork_reads_its_lineage
                forks_below_the_base_skip_the_parent
                forks_that_cannot_be_are_refused
                reads_return_ranges
                the_end_is_the_newest_position
                reads_go_backwards
                reads_find_kinds
                pages_are_limited
                events_are_found_by_id
                events_are_found_by_their_cause
                all_events_are_read_in_order_of_position
                blobs_know_whether_they_are_referred_to
                a_branch_is_searched_for_a_blob
                reading_what_is_not_there_is_an_error
                names_are_never_confused
                kinds_and_payloads_survive_byte_for_byte
                large_payloads_are_in_the_blob_store
                an_event_needs_its_blobs
                a_collector_never_takes_what_was_acknowledged
                a_sweep_at_any_moment_takes_nothing_acknowledged
                a_lost_payload_is_an_error
                a_snapshot_is_found_by_its_fold
                a_snapshot_of_other_events_is_ignored
                a_fork_inherits_snapshots
                a_tail_replays_and_follows
                a_tail_waits_for_what_is_not_there_yet
                a_waiting_tail_is_woken
                a_tail_of_a_fork_reads_its_lineage
                a_tail_of_everything_is_in_order
                a_tail_beyond_the_head_waits
                a_slow_reader_misses_nothing
                readers_that_join_at_any_moment_see_everything_once
                an_export_of_an_import_is_the_same
                an_import_of_one_stream_is_exact
                an_import_cut_at_any_byte_keeps_whole_lines
                an_anchor_holds_while_the_journal_grows
                every_chain_can_be_recomputed
                everything_is_there_after_reopening
                two_handles_see_each_other
            }
        }
    };
    (@cases $make:path, $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance::$case(|| Box::pin($make())).await;
            }
        )*
    };
}
