//! A local DynamoDB: dynoxide in memory, behind the front layer.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dynoxide::Database;
use http::header::CONTENT_LENGTH;
use http::uri::{Authority, Scheme};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tempfile::TempDir;

use crate::conflicts::{Admission, Conflicts, refuse_all};
use crate::faults::{Control, FaultKind};
use crate::front::{Backend, Call, Front, Refusal, Reply, json_reply, listen};
use crate::meter::Meter;

/// The expression is the one of dynoxide's own queries, to the letter.
const STREAM_INDEX: &str =
    "CREATE INDEX stream_order ON _stream_records (table_name, CAST(sequence_number AS INTEGER))";

/// How a [`Dynamodb`] differs from plain dynoxide.
#[derive(Clone, Copy, Debug)]
pub struct DynamodbOptions {
    /// Time that every call takes in addition. Zero by default.
    pub latency: Duration,
    /// Whether a call is refused, as AWS does it, when it touches an item of a transaction in
    /// flight. Dynoxide applies transactions one after another and never refuses. On by default.
    pub conflicts: bool,
}

impl Default for DynamodbOptions {
    fn default() -> Self {
        Self { latency: Duration::ZERO, conflicts: true }
    }
}

/// A DynamoDB with Streams on a free port of 127.0.0.1, empty at the start, gone on drop.
///
/// A call takes the latency first and is then applied and answered. A transaction locks its
/// items for that whole time. Streams operations have no latency. A client that goes away does
/// not undo its call.
pub struct Dynamodb {
    front: Front,
    database: Database,
    meter: Arc<Meter>,
}

impl Dynamodb {
    /// Starts the server; it takes calls when this returns.
    ///
    /// # Errors
    /// When threads, a port or the database are not to be had.
    #[expect(clippy::unused_async, reason = "the same form as the other servers")]
    pub async fn start(options: DynamodbOptions) -> io::Result<Self> {
        let database = with_stream_index().map_err(io::Error::other)?;
        let meter = Arc::new(Meter::default());
        let front = Front::start("dynamodb", || Dynoxide::start(&database, options.conflicts, Arc::clone(&meter)))?;
        front.latency().set(options.latency);
        Ok(Self { front, database, meter })
    }

    /// `http://127.0.0.1:port`, for the SDK's `endpoint_url`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.front.endpoint()
    }

    /// Counts and faults of this server.
    #[must_use]
    pub fn control(&self) -> &Control {
        self.front.control()
    }

    /// From now on every call is asked for the capacity units that it used.
    pub fn start_metering(&self) {
        self.meter.start();
    }

    /// The capacity units that were used since [`Self::start_metering`], by operation: read units of those that
    /// read, write units of those that write.
    #[must_use]
    pub fn consumed(&self) -> BTreeMap<String, f64> {
        self.meter.units()
    }

    /// Sets the time that every call takes in addition from now on; calls in flight keep theirs.
    pub fn set_latency(&self, latency: Duration) {
        self.front.latency().set(latency);
    }

    /// Deletes the items whose time to live has passed, as AWS does it in the background, and
    /// answers how many. Nothing else deletes them here.
    ///
    /// # Errors
    /// When the database fails.
    pub fn sweep_ttl(&self) -> io::Result<usize> {
        self.database.sweep_ttl().map_err(io::Error::other)
    }

    /// Forgets every item and all of the stream but its last record, from which the next one's number
    /// follows. Only for a server at rest, so that a long run does not measure its own past.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget(&self) -> io::Result<()> {
        forget_all(&self.database).map_err(io::Error::other)
    }

    /// Takes no more calls, lets those in flight finish for two seconds, then ends.
    pub async fn stop(self) {
        self.front.stop().await;
    }
}

/// Dynoxide's own HTTP server, which has AWS's checks and error texts, on a port of its own.
struct Dynoxide {
    authority: Authority,
    client: Client<HttpConnector, Full<Bytes>>,
    conflicts: Option<Conflicts>,
    meter: Arc<Meter>,
}

impl Dynoxide {
    /// Starts it in the current runtime, with which it ends.
    fn start(database: &Database, conflicts: bool, meter: Arc<Meter>) -> io::Result<Self> {
        let (listener, address) = listen()?;
        let served = dynoxide::server::serve_on(listener, database.clone());
        tokio::spawn(served);
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let database = database.clone();
        let key_names = move |table: &str| key_names(&database, table);
        Ok(Self {
            authority: authority(address)?,
            client: Client::builder(TokioExecutor::new()).build(connector),
            conflicts: conflicts.then(|| Conflicts::new(Box::new(key_names))),
            meter,
        })
    }
}

/// An empty database in memory with one index that dynoxide does not have. Without it each written
/// item reads all stream records that there are, to number its own: 7 ms with 24,000 of them. The
/// only way in is dynoxide's own: a snapshot, changed as the file that it is, and taken back.
fn with_stream_index() -> Result<Database, Box<dyn Error + Send + Sync>> {
    let database = Database::memory()?;
    let directory = TempDir::with_prefix("dynoxide-")?;
    let snapshot = directory.path().join("empty.sqlite");
    let path = snapshot.to_str().ok_or("the directory of temporary files has a name that is not UTF-8")?;
    database.vacuum_into(path)?;
    rusqlite::Connection::open(&snapshot)?.execute_batch(STREAM_INDEX)?;
    database.restore_from(path)?;
    Ok(database)
}

/// The same way in as [`with_stream_index`].
fn forget_all(database: &Database) -> Result<(), Box<dyn Error + Send + Sync>> {
    let directory = TempDir::with_prefix("dynoxide-")?;
    let snapshot = directory.path().join("past.sqlite");
    let path = snapshot.to_str().ok_or("the directory of temporary files has a name that is not UTF-8")?;
    database.vacuum_into(path)?;
    let connection = rusqlite::Connection::open(&snapshot)?;
    let names: Vec<String> = connection
        .prepare(r"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\_%' ESCAPE '\' AND name NOT LIKE 'sqlite%'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for name in names {
        connection.execute_batch(&format!("DELETE FROM \"{}\"", name.replace('"', "\"\"")))?;
    }
    connection.execute_batch(
        "DELETE FROM _stream_records WHERE id NOT IN (SELECT MAX(id) FROM _stream_records GROUP BY table_name)",
    )?;
    connection.execute_batch("VACUUM")?;
    drop(connection);
    database.restore_from(path)?;
    Ok(())
}

fn authority(address: SocketAddr) -> io::Result<Authority> {
    Authority::try_from(address.to_string()).map_err(io::Error::other)
}

fn key_names(database: &Database, table: &str) -> Option<Vec<String>> {
    let request = serde_json::from_value(json!({ "TableName": table })).ok()?;
    let described = database.describe_table(request).ok()?;
    let schema = described.table.key_schema;
    Some(schema.into_iter().map(|key| key.attribute_name).collect())
}

impl Backend for Dynoxide {
    type Admission = Admission;

    fn admit(&self, call: &Call) -> Result<Admission, Refusal> {
        match &self.conflicts {
            Some(conflicts) => conflicts.admit(&call.operation, &call.body),
            None => Ok(Admission::default()),
        }
    }

    fn may_conflict(&self, operation: &str) -> bool {
        Conflicts::concern(operation)
    }

    fn refuse(&self, kind: FaultKind, call: &Call) -> Reply {
        match kind {
            FaultKind::Conflict => refuse_all(&call.operation, &call.body),
            FaultKind::Throttled => json_reply(
                StatusCode::BAD_REQUEST,
                &json!({
                    "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
                    "message": "The level of configured provisioned throughput for the table was \
                        exceeded. Consider increasing your provisioning level with the \
                        UpdateTable API.",
                }),
            ),
            _ => json_reply(
                StatusCode::INTERNAL_SERVER_ERROR,
                &json!({
                    "__type": "com.amazonaws.dynamodb.v20120810#InternalServerError",
                    "message": "The request processing has failed because of an unknown error, \
                        exception or failure.",
                }),
            ),
        }
    }

    fn ends_with_client(&self, _operation: &str) -> bool {
        false
    }

    async fn apply(&self, call: Call) -> io::Result<Reply> {
        let mut parts = call.parts;
        let mut uri = parts.uri.into_parts();
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = Some(self.authority.clone());
        parts.uri = Uri::from_parts(uri).map_err(io::Error::other)?;
        let body = self.meter.ask(&call.operation, call.body);
        // Its length is told anew.
        parts.headers.remove(CONTENT_LENGTH);
        let request = Request::from_parts(parts, Full::new(body));
        let reply = self.client.request(request).await;
        let (parts, body) = reply.map_err(io::Error::other)?.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        self.meter.note(&call.operation, &body);
        Ok(Reply::from_parts(parts, Full::new(body)))
    }
}
