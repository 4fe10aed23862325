//! What reconciliations found, and one on demand.

use std::time::Duration;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::{
        findings::{Findings, Reconciliation},
        reconcile::{OnDemand, Pass, PassEnded, Reconcile, Report},
    },
    domain::ids::ActivityId,
    lambda::{
        http::{self, Role},
        problem::Problem,
    },
    ports::SystemClock,
};
use lambda_http::{Body, Request, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Time of a pass on demand: the gateway waits 30 s, the function has 29. What is left then, the next call
/// or the next scheduled run goes on with.
const PASS_TIME: Duration = Duration::from_secs(20);

pub struct Reconciliations {
    pub findings: Findings<Database, SystemClock>,
    pub use_case: Reconcile<Database, Gate, SystemClock>,
}

impl Reconciliations {
    pub fn new(database: Database, gate: Gate) -> Self {
        Self {
            findings: Findings { store: database.clone(), clock: SystemClock },
            use_case: Reconcile { store: database, gate, clock: SystemClock },
        }
    }

    pub async fn show(&self, request: &Request) -> Result<Response<Body>, Problem> {
        http::caller_in_role(request, Role::Auditor)?;
        let id = http::activity(request)?;
        Ok(http::ok(200, &self.document(&id).await?))
    }

    pub async fn run(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let id = http::activity(request)?;
        let ran = Box::pin(self.use_case.run_activity(&id, Instant::now() + PASS_TIME)).await;
        let (status, in_progress, run) = match ran.map_err(Problem::fault)? {
            OnDemand::UnknownActivity => return Err(Problem::unknown_activity()),
            OnDemand::NotRunning => {
                return Err(Problem::not_preheated());
            }
            OnDemand::InProgress => (202, true, None),
            OnDemand::Done(report) => (if report.complete { 200 } else { 202 }, !report.complete, Some(report)),
        };
        tracing::info!(activity = %id, operator = operator.log_id(), in_progress, "reconcile_on_demand");
        let mut document = self.document(&id).await?;
        document["in_progress"] = json!(in_progress);
        document["run"] = run.as_deref().map_or(Value::Null, told_run);
        Ok(http::ok(status, &document))
    }

    async fn document(&self, id: &ActivityId) -> Result<Value, Problem> {
        let found = self.findings.read(id).await.map_err(Problem::fault)?;
        let Reconciliation { pass, last_full, last_incremental, counts, rows, truncated } =
            found.ok_or_else(Problem::unknown_activity)?;
        Ok(json!({
            "activity": id, "last_full": last_full.as_ref().map(told_pass),
            "last_incremental": last_incremental.as_ref().map(told_pass),
            "incomplete": pass.as_ref().map(told_place), "counts": counts, "findings": rows, "truncated": truncated
        }))
    }
}

fn told_pass(pass: &PassEnded) -> Value {
    json!({
        "started_at": pass.started_at, "ended_at": pass.ended_at, "compared": pass.compared, "found": pass.found,
        "repaired": pass.repaired
    })
}

fn told_place(pass: &Pass) -> Value {
    json!({
        "kind": pass.kind, "started_at": pass.started_at, "bucket": pass.bucket, "compared": pass.compared,
        "found": pass.found, "repaired": pass.repaired
    })
}

fn told_run(report: &Report) -> Value {
    let found: u64 = report.findings.values().map(|found| found.count).sum();
    let repaired: u64 = report.findings.values().map(|found| found.repaired).sum();
    json!({
        "complete": report.complete, "compared": report.compared, "found": found, "repaired": repaired,
        "faults": report.faults
    })
}
