//! The gate against real servers: a single Redis, and a cluster of three primaries with replicas.
//! Every test of a script runs on both.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod bad_data;
mod breaker;
mod bucket;
mod faults;
mod listing;
mod lives;
mod lock;
mod memory;
mod parts;
mod place;
mod random;
mod restock;
mod restore;
mod support;
mod tokens;

/// Each test once per topology. Those of one topology run next to each other, so that they share
/// its servers.
macro_rules! on_both {
    ($($module:ident: $($name:ident),+;)+) => {
        mod single {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$module::$name(&super::support::World::single().await).await;
                }
            )+)+
        }
        mod cluster {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$module::$name(&super::support::World::cluster().await).await;
                }
            )+)+
        }
    };
}

on_both! {
    bad_data: a_key_of_another_type_is_bad_data_and_nothing_changes, garbage_in_any_field_is_bad_data_and_nothing_changes,
        a_garbled_record_is_bad_data_and_nothing_changes,
        a_record_whose_placement_is_garbage_is_bad_data;
    bucket: preheating_twice_loads_once, preheating_drops_what_a_lost_bucket_left, a_bucket_without_its_records_is_lost,
        allotments_are_taken_by_version_in_any_order, a_freeze_is_an_allotment_of_a_newer_version,
        control_is_taken_when_newer_and_lengthens_lives, sums_are_counted_from_records_and_repaired, a_lost_bucket_has_no_sums,
        counters_are_exact_up_to_the_largest_stock, sums_are_made_of_pages,
        sums_in_pages_are_not_taken_from_a_moving_bucket;
    listing: every_record_and_mark_is_listed, a_mark_is_told_by_order_number;
    lives: every_key_has_a_life_and_marks_outlive_stock, keys_made_on_a_flushed_bucket_have_a_life;
    lock: of_many_owners_one_gets_the_lock, nobody_releases_or_renews_what_is_anothers,
        f10_a_lease_that_ran_out_is_lost_to_the_next_owner, a_lock_that_redis_forgot_is_lost_and_free,
        f32_a_lease_is_in_milliseconds, work_longer_than_its_lease_keeps_others_out;
    parts: a_part_is_taken_changed_and_taken_back, outcomes_of_deducting_come_in_their_order,
        outcomes_of_undoing_come_in_their_order, looking_tells_what_is_free_and_writes_nothing,
        a_look_then_parts_then_an_undo_leave_no_trace, at_home_a_new_record_marks_the_buyer;
    place: outcomes_come_in_their_order_and_refusals_write_nothing, before_the_window_lost_memory_is_not_started,
        the_same_submission_is_admitted_once, limits_count_per_scope_and_list_the_orders, a_scope_lists_twenty_placements_at_most,
        the_rate_counts_admissions_of_one_second, several_skus_are_taken_together_or_not_at_all,
        looking_takes_what_is_there, the_last_unit_is_sold_once, one_submission_sent_many_times_at_once_takes_once,
        odd_buyers_are_told_apart, flushed_scripts_are_loaded_again;
    random: sums_hold_and_ranks_never_fall, sums_hold_under_concurrency;
    restock: each_take_is_restocked_once, a_restock_takes_the_mark_unless_it_is_kept, a_late_restock_still_takes_the_mark,
        a_flushed_bucket_gets_the_record_only, an_older_take_changes_nothing, a_record_replaced_in_between_is_read_again;
    restore: a_restore_raises_and_may_oversell, a_restore_with_other_units_moves_the_difference,
        a_lost_mark_is_set_again, a_restore_never_lowers, a_late_payment_takes_again,
        a_restore_moves_the_mark_to_the_order_s_day, a_restore_takes_the_last_order_out_of_a_mark,
        a_kept_mark_moves_with_a_late_payment, a_record_of_another_day_in_between_is_read_again,
        marks_go_with_the_record_whoever_undoes_it, a_restock_takes_the_marks_of_both_days;
    tokens: tokens_are_counted_per_minute, a_counter_without_an_end_gets_one;
}
