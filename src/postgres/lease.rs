//! The shards that this server owns. The database grants each for a short time, by its own clock, and the server renews them
//! all together. By its own clock, which never goes back, the server stops using them before they can end in the database.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_postgres::Client;

use crate::{error::database_error, shard::Shard, value::from_int8};
use midex_domain::error::{Code, Error, Result};

/// How long shards are owned without a renewal, and how often they are renewed.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOptions {
    /// How long a shard is owned without a renewal.
    pub duration: Duration,
    /// How often the shards are renewed.
    pub renew_every: Duration,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self { duration: Duration::from_secs(10), renew_every: Duration::from_secs(3) }
    }
}

impl LeaseOptions {
    /// A lease counts as ended so long before its end: a tenth of it.
    fn margin(self) -> Duration {
        self.duration / 10
    }

    fn milliseconds(self) -> f64 {
        self.duration.as_secs_f64() * 1e3
    }
}

/// The shards that one server owns.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The name of the server, which no other one has.
    pub(crate) owner: String,
    options: LeaseOptions,
    held: Mutex<BTreeMap<Shard, HeldShard>>,
    /// The largest key that was stored when a shard was taken last.
    last_key: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct HeldShard {
    epoch: i64,
    valid_until: Instant,
}

impl Leases {
    pub(crate) fn new(owner: String, options: LeaseOptions) -> Self {
        Self { owner, options, held: Mutex::default(), last_key: AtomicU64::new(0) }
    }

    pub(crate) fn duration(&self) -> Duration {
        self.options.duration
    }

    pub(crate) fn renew_every(&self) -> Duration {
        self.options.renew_every
    }

    /// The epoch in which this server owns the shard; `None` if it does not, or may not any more.
    pub(crate) fn epoch(&self, shard: Shard) -> Option<i64> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = held.get(&shard).filter(|lease| lease.valid_until > now());
        lease.map(|lease| lease.epoch)
    }

    /// A key that is at least as large as those of the rows that earlier owners of the shards have stored.
    pub(crate) fn last_key(&self) -> u64 {
        self.last_key.load(Ordering::Relaxed)
    }

    /// The number of shards that this server owns.
    pub(crate) fn count(&self) -> usize {
        Shard::all().filter(|shard| self.epoch(*shard).is_some()).count()
    }

    /// Takes the shards without an owner. If there are none, waits for up to twice the time of a lease: a server that ended
    /// just now may not have given its shards back.
    ///
    /// # Errors
    /// `STORE_BUSY` if no shard becomes free; those of the database.
    pub(crate) async fn take_first_shards(&self, client: &Client, address: &str) -> Result<()> {
        let deadline = now() + self.options.duration * 2;
        while self.take_free_shards(client, address).await? == 0 {
            if now() >= deadline {
                let message = "other servers own all executions of the database";
                return Err(Error::new(Code::StoreBusy, message));
            }
            tokio::time::sleep(self.options.renew_every / 4).await;
        }
        Ok(())
    }

    /// Takes the shards without an owner. Returns the number of shards that were taken.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn take_free_shards(&self, client: &Client, address: &str) -> Result<usize> {
        let begin = now();
        let taken = client
            .query(
                "UPDATE shards SET owner = $1, epoch = epoch + 1, address = $2, \
                 expires_at = now() + $3::float8 * interval '1 millisecond' \
                 WHERE expires_at < now() RETURNING shard, epoch",
                &[&self.owner, &address, &self.options.milliseconds()],
            )
            .await
            .map_err(database_error)?;
        if taken.is_empty() {
            return Ok(0);
        }
        let last = client
            .query_one(
                "SELECT greatest((SELECT max(seq) FROM journal), (SELECT max(seq) FROM refusals), 0)",
                &[],
            )
            .await
            .map_err(database_error)?;
        self.last_key.fetch_max(from_int8(last.get(0)), Ordering::Relaxed);
        let valid_until = begin + self.options.duration - self.options.margin();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for row in &taken {
            if let Some(shard) = Shard::from_number(row.get(0)) {
                held.insert(shard, HeldShard { epoch: row.get(1), valid_until });
            }
        }
        Ok(taken.len())
    }

    /// Renews all leases. Those that another server has taken are forgotten; their number is returned.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn renew(&self, client: &Client) -> Result<usize> {
        let begin = now();
        let renewed = client
            .query(
                "UPDATE shards SET expires_at = now() + $2::float8 * interval '1 millisecond' \
                 WHERE owner = $1 RETURNING shard, epoch",
                &[&self.owner, &self.options.milliseconds()],
            )
            .await
            .map_err(database_error)?;
        let valid_until = begin + self.options.duration - self.options.margin();
        let renewed: BTreeMap<_, _> = renewed
            .iter()
            .filter_map(|row| Some((Shard::from_number(row.get(0))?, row.get::<_, i64>(1))))
            .collect();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.len();
        held.retain(|shard, lease| renewed.get(shard) == Some(&lease.epoch));
        held.values_mut().for_each(|lease| lease.valid_until = valid_until);
        Ok(before - held.len())
    }

    /// Gives all shards back, so that another server can take them at once.
    ///
    /// # Errors
    /// Those of the database. The leases then end after their time.
    pub(crate) async fn release(&self, client: &Client) -> Result<()> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
        client
            .execute(
                "UPDATE shards SET expires_at = '1970-01-01T00:00:00Z' WHERE owner = $1",
                &[&self.owner],
            )
            .await
            .map(drop)
            .map_err(database_error)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "leases are counted by the clock that never goes back"
)]
fn now() -> Instant {
    Instant::now()
}
