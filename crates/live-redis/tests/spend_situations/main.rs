//! Situations in which other gateways lost or doubled spend, as far as they are about the queue.
//!
//! | situation | test |
//! |---|---|
//! | 1 a batch is removed before its commit, the commit fails | usage-flusher `step::a_failed_commit_leaves_its_entries_at_the_head_and_the_next_step_settles_each_once`, `situations_faults::a_flusher_killed_while_its_commits_fail_leaves_every_entry_at_the_head` |
//! | 2 database outage | usage-flusher `process::events_of_a_database_outage_all_land_later`, `situations_faults::a_flusher_does_not_grow_while_the_database_is_away` |
//! | 3 shutdown skips the last flush | usage-flusher `process::a_stop_signal_under_load_ends_the_process_cleanly_and_loses_nothing` |
//! | 4 buffer on, Redis absent, silent no-op | usage-flusher `refusals::unreachable_and_malformed_urls_are_one_line_that_says_what_failed`; `open::a_server_that_is_not_there_fails_at_connecting`, and in `disabled` |
//! | 5 missing or reused ids drop rows | `lost::an_empty_id_is_refused_and_a_reused_one_is_a_visible_conflict` |
//! | 6 the id is claimed, the event never durable | `lost::a_queue_of_another_type_is_an_error_that_claims_no_id` |
//! | 7 replicas re-seed a cold counter | `twice::six_readers_of_a_cold_index_see_the_exact_amount`; with the ledger usage-flusher `situations_sums::six_readers_see_ledger_and_pending_add_up` |
//! | 8 a time-out's retry applies twice | `twice::an_enqueue_whose_reply_was_lost_counts_once_when_it_is_sent_again` |
//! | 9 killed after commit, before acknowledgement | usage-flusher `process::a_kill_after_the_commit_changes_no_sum`; `step::a_lost_acknowledgement_changes_no_sum` |
//! | 10 a team's spend lands on a personal budget | `twice::only_listed_scopes_are_charged` |
//! | 11 negative, NaN, 1e400 costs | `amounts::amounts_that_are_none_move_no_counter` |
//! | 12 float drift and cents | `amounts::tiny_amounts_add_up_exactly`; days iam-ledger `commit::ten_thousand_tiny_charges_are_exact_in_events_days_and_spend` |
//! | 13 a late flush charges the next period | usage-flusher `situations_sums::an_event_from_before_midnight_is_charged_to_its_own_day_when_flushed_after`; iam-ledger `periods::an_event_just_before_midnight_counts_in_its_own_day_and_period` |
//! | 14 hot counters survive a reset | `amounts::only_what_started_in_the_new_period_occupies_it` |
//! | 23 a key with no TTL, or that never expires | `spend_retention::every_bounded_memory_expires_and_a_permanent_one_never_does`; minutes in `counters` and `fast_path` |
//! | 25 deadlock drops increments | usage-flusher `situations_sums::flushers_that_touch_scopes_in_opposite_order_settle_exact_sums`; iam-ledger `concurrency::overlapping_batches_of_several_committers_add_up_and_never_deadlock` |
//! | 26 read-then-trim under concurrent pushes | `lost::two_flushers_of_one_head_under_pushes_take_each_entry_once`, `lost::an_acknowledgement_takes_nothing_that_stands_between_copies_of_its_ends` |
//! | 27 distinct ids fill Redis | `lost::a_remembered_id_takes_at_most_28_bytes`; `spend_retention` |
//! | 28 a backlog grows unseen | `spend_pressure::a_backlog_is_its_length_and_when_its_head_was_made_ready` and others there; metrics and `readyz` in usage-flusher |
//! | 29 rotating a secret zeroes its spend | `twice::a_rotated_secret_keeps_its_spend`; format 1 `spend_older::a_rotated_secret_leaves_its_key_what_it_was` |

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod amounts;
#[path = "../common/mod.rs"]
mod common;
mod lost;
mod twice;

use common::Hot;
use spend_queue::{PendingSpend, ScopeRef};

fn scope(text: &str) -> ScopeRef {
    text.parse().unwrap()
}

async fn pending(hot: &Hot, text: &str) -> i128 {
    hot.redis.pending(&scope(text)).await.unwrap().picos()
}
