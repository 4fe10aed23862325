//! The gate's keys, read whole: two hashes per bucket.

use std::collections::{BTreeMap, HashMap};

use holdfast::adapters::redis::keys::{BucketKeys, SENTINEL, is_mark};
use holdfast::domain::ids::{ActivityId, Bucket};
use holdfast::domain::record::{Record, Side};

use super::snapshot::{ActivityFacts, GateBucket, GateRecord, GateSku, Mark};

/// How Redis is reached from outside the product.
#[derive(Clone)]
pub enum Reader {
    Single(Box<redis::Client>),
    Cluster(Box<redis::cluster::ClusterClient>),
}

/// Every bucket of the activity. One whose keys are gone is empty.
pub(super) async fn read(reader: &Reader, activity: &ActivityFacts) -> Result<BTreeMap<u16, GateBucket>, String> {
    let text = |error: redis::RedisError| error.to_string();
    match reader {
        Reader::Single(client) => {
            read_all(&mut client.get_multiplexed_async_connection().await.map_err(text)?, activity).await
        }
        Reader::Cluster(client) => read_all(&mut client.get_async_connection().await.map_err(text)?, activity).await,
    }
}

async fn read_all(
    connection: &mut (impl redis::aio::ConnectionLike + Send),
    activity: &ActivityFacts,
) -> Result<BTreeMap<u16, GateBucket>, String> {
    let text = |error: redis::RedisError| error.to_string();
    let id = ActivityId::parse(&activity.id).map_err(|error| error.to_string())?;
    let mut buckets = BTreeMap::new();
    for index in 0..activity.buckets {
        let keys = BucketKeys::new(&id, Bucket::new(index).map_err(|error| error.to_string())?);
        let mut both = redis::pipe();
        // Together, so that counters and records are of one instant.
        both.atomic().hgetall(&keys.bucket).hgetall(&keys.orders);
        let (counters, records): (HashMap<String, String>, HashMap<String, String>) =
            both.query_async(connection).await.map_err(text)?;
        buckets.insert(index, bucket(&counters, records));
    }
    Ok(buckets)
}

/// Deletes every key of the activity: an id has no character that is special in a pattern.
pub(super) async fn forget(client: &redis::Client, activity: &str) -> redis::RedisResult<()> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut cursor = 0_u64;
    loop {
        let (next, keys): (u64, Vec<String>) = redis::cmd("SCAN")
            .arg(cursor)
            .arg("MATCH")
            .arg(format!("hf:{{{activity}:*"))
            .arg("COUNT")
            .arg(1_000)
            .query_async(&mut connection)
            .await?;
        if !keys.is_empty() {
            redis::cmd("UNLINK").arg(keys).query_async::<()>(&mut connection).await?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

fn bucket(counters: &HashMap<String, String>, records: HashMap<String, String>) -> GateBucket {
    let mut bucket = GateBucket::default();
    for (field, value) in counters {
        // `@…` is the bucket's own; no SKU begins so.
        if field.starts_with('@') {
            continue;
        }
        match sku(value) {
            Some(counters) => {
                bucket.skus.insert(field.clone(), counters);
            }
            None => bucket.unreadable.push(format!("{field} = {value}")),
        }
    }
    for (field, value) in records {
        if field == SENTINEL {
            continue;
        }
        if is_mark(&field) {
            match marks(&field, &value) {
                Some(marks) => bucket.marks.extend(marks),
                None => bucket.unreadable.push(format!("mark {field} = {value}")),
            }
        } else {
            match Record::parse(&value) {
                Ok(found) => {
                    bucket.records.insert(field, record(found));
                }
                Err(error) => bucket.unreadable.push(format!("record {field}: {error}")),
            }
        }
    }
    bucket
}

/// `free|sold|on sale|allotted|version`.
fn sku(text: &str) -> Option<GateSku> {
    let fields: Vec<&str> = text.split('|').collect();
    let [free, sold, _, allotted, _] = fields[..] else { return None };
    Some(GateSku { free: free.parse().ok()?, sold: sold.parse().ok()?, allotted: allotted.parse().ok()? })
}

fn record(found: Record) -> GateRecord {
    let units = found.held.into_iter().filter(|(_, units)| *units > 0);
    GateRecord {
        deducted: found.side == Side::Deducted,
        take: found.take.get(),
        buyer: found.placement.map(|placement| placement.buyer.as_str().to_owned()),
        units: units.map(|(sku, units)| (sku.as_str().to_owned(), units)).collect(),
    }
}

/// `scope|buyer` → `order_no=units;…`.
fn marks(field: &str, value: &str) -> Option<Vec<Mark>> {
    let (scope, buyer) = field.split_once('|')?;
    let entry = |entry: &str| {
        let (order_no, units) = entry.split_once('=')?;
        Some(Mark {
            buyer: buyer.to_owned(),
            scope: scope.to_owned(),
            order_no: order_no.to_owned(),
            units: units.parse().ok()?,
        })
    };
    value.split(';').map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn counters_records_and_marks_are_read_and_what_cannot_be_is_kept() {
        let counters = fields(&[("@control", "3|1|2|80"), ("a", "-1|4|1|3|7"), ("b", "x|0|1|3|7")]);
        let order = "03PMZ9TWHB6V08WN8MG9SWRMDG";
        let records = fields(&[
            ("#", "1"),
            (order, "1|D|1|1000|0123456789abcdef0123456789abcdef|a=2,b=0|"),
            ("S#a|auth0|alice", "03PMZ9TWHB6V08WN8MG9SWRMDG=2"),
            ("S#b|bob", "nonsense"),
            ("OTHER", "2|D"),
        ]);
        let bucket = bucket(&counters, records);
        let a = bucket.skus["a"];
        assert_eq!((a.free, a.sold, a.allotted), (-1, 4, 3));
        assert_eq!(bucket.records[order].units, BTreeMap::from([("a".to_owned(), 2)]));
        let mark = Mark { buyer: "auth0|alice".into(), scope: "S#a".into(), order_no: order.into(), units: 2 };
        assert_eq!(bucket.marks, [mark]);
        assert_eq!(bucket.unreadable.len(), 3, "{:?}", bucket.unreadable);
    }
}
