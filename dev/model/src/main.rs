//! Explores the focused models and prints what each came to.

use std::{num::NonZeroUsize, process::ExitCode};

use clap::Parser;
use model::{
    check::explore,
    models::{Size, all},
    scenario::Bug,
};

#[derive(Parser)]
struct Args {
    /// The small bounds of the test instead of the full ones.
    #[arg(long)]
    quick: bool,
    /// Only models whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Looks for each planted mistake in the quick models instead, and prints the shortest ways to it.
    #[arg(long)]
    mistakes: bool,
    /// Threads to explore with.
    #[arg(long, default_value = "2")]
    threads: NonZeroUsize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let size = if args.quick { Size::Quick } else { Size::Full };
    let only = args.only.unwrap_or_default();
    if args.mistakes {
        return mistakes(&only);
    }
    println!("{:<18} {:>12} {:>11} {:>6} {:>10} {:>8}", "model", "states", "unique", "depth", "settled", "seconds");
    let (mut failed, mut states, mut unique, mut seconds) = (false, 0, 0, 0.0);
    for scenario in all(size).into_iter().filter(|scenario| scenario.name.contains(&only)) {
        let summary = explore(scenario, args.threads);
        println!(
            "{:<18} {:>12} {:>11} {:>6} {:>10} {:>8.1}",
            summary.name,
            summary.states,
            summary.unique,
            summary.depth,
            summary.settled,
            summary.took.as_secs_f64()
        );
        states += summary.states;
        unique += summary.unique;
        seconds += summary.took.as_secs_f64();
        if let Some(violation) = &summary.violation {
            println!("{}", violation.trace());
        }
        if !summary.missed.is_empty() {
            println!("  never reached: {:?}", summary.missed);
        }
        failed |= !summary.holds();
    }
    println!("{:<18} {states:>12} {unique:>11} {:>6} {:>10} {seconds:>8.1}", "all", "", "");
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn mistakes(only: &str) -> ExitCode {
    let mut missed = false;
    for bug in Bug::ALL.into_iter().filter(|bug| format!("{bug:?}").contains(only)) {
        let found = all(Size::Quick).into_iter().filter_map(|scenario| {
            let summary = explore(scenario.with_bug(bug), NonZeroUsize::MIN);
            summary.violation.map(|violation| (summary.name, summary.took, violation))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|(_, took, violation)| (violation.steps.len(), *took));
        missed |= found.is_empty();
        println!("{bug:?}: found by {} models", found.len());
        for (name, took, violation) in found.iter().take(4) {
            println!(
                "  {name:<18} {:>3} steps {:>6.1} s  {}",
                violation.steps.len(),
                took.as_secs_f64(),
                violation.property
            );
        }
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
