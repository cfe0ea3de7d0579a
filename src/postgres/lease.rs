//! The shards that this server owns. The database grants each for a short time, by its own clock, and the server renews them
//! all together. By its own clock, which never goes back, the server stops using them before they can end in the database.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tokio_postgres::{Client, Row, types::Type};

use crate::{
    error::database_error,
    shard::{SHARD_COUNT, Shard},
    value::{from_int8, to_int8},
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_engine::store::{AttemptStage, BusyExecutions};

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
        Self::new(limits::LEASE_DEFAULT)
    }
}

impl LeaseOptions {
    /// Leases of this duration, which are renewed three times in it.
    pub fn new(duration: Duration) -> Self {
        Self { duration, renew_every: duration * 3 / 10 }
    }

    /// The database ends a transaction after this time without a statement, and a statement after this time of waiting for a lock.
    /// Without it, a server that is suspended in a transaction keeps its locks on `shards`, and no other server can take over.
    pub(crate) fn transaction_pause_max(self) -> Duration {
        self.duration / 2
    }

    /// How often free shards are looked for, and whether there are more or fewer servers.
    pub(crate) fn look_every(self) -> Duration {
        self.renew_every / 6
    }

    /// The server stops using a lease this long before the database ends it, because the two clocks may run at different speeds.
    fn margin(self) -> Duration {
        self.duration / 10
    }

    fn milliseconds(self) -> f64 {
        self.duration.as_secs_f64() * 1e3
    }
}

/// Frees shards of a server, so that another one can take them at once. Like every statement on `shards`, it locks them in their
/// order, as batches do: otherwise each could wait for a lock of the other.
const FREE_SHARDS: &str = "WITH freed AS (SELECT shard FROM shards WHERE owner = $1 AND shard = ANY($2) ORDER BY shard FOR UPDATE) \
    UPDATE shards SET owner = '', expires_at = '1970-01-01T00:00:00Z' FROM freed WHERE shards.shard = freed.shard";

/// The shards that one server owns.
pub(crate) struct Leases {
    /// The name of the server, which no other one has.
    pub(crate) owner: String,
    /// Where other servers reach it.
    address: String,
    options: LeaseOptions,
    held: Mutex<HeldShards>,
    /// The largest key that was stored when a shard was taken last.
    last_key: AtomicU64,
    /// Notified when the server begins or ceases to own shards.
    changes: watch::Sender<()>,
    list_busy: OnceLock<BusyExecutions>,
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// The epochs of the shards, and when all their leases end.
#[derive(Debug, Default)]
struct HeldShards {
    epochs: BTreeMap<Shard, i64>,
    /// Those of them that are given back once none of their attempts is in flight.
    leaving: BTreeSet<Shard>,
    valid_until: Option<Instant>,
}

impl Leases {
    pub(crate) fn new(owner: String, address: String, options: LeaseOptions) -> Self {
        Self {
            owner,
            address,
            options,
            held: Mutex::default(),
            last_key: AtomicU64::new(0),
            changes: watch::Sender::default(),
            list_busy: OnceLock::new(),
        }
    }

    pub(crate) fn options(&self) -> LeaseOptions {
        self.options
    }

    /// Watches when the server begins or ceases to own shards.
    pub(crate) fn watch(&self, list_busy: BusyExecutions) -> watch::Receiver<()> {
        // Only the first engine of a store shares its work.
        let _ = self.list_busy.set(list_busy);
        let mut receiver = self.changes.subscribe();
        // Marks the receiver as changed: the engine has not seen the shards that were taken before.
        receiver.mark_changed();
        receiver
    }

    fn lock(&self) -> MutexGuard<'_, HeldShards> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The epoch in which this server owns the shard; `None` if it does not, or may not any more.
    pub(crate) fn epoch(&self, shard: Shard) -> Option<i64> {
        let held = self.lock();
        held.valid_until.filter(|until| *until > now())?;
        held.epochs.get(&shard).copied()
    }

    /// The shards that this server owns, with their epochs.
    pub(crate) fn held_epochs(&self) -> BTreeMap<Shard, i64> {
        let held = self.lock();
        let is_valid = held.valid_until.is_some_and(|until| until > now());
        if is_valid { held.epochs.clone() } else { BTreeMap::new() }
    }

    /// The shards that this server owns.
    pub(crate) fn list(&self) -> Vec<Shard> {
        self.held_epochs().into_keys().collect()
    }

    /// Whether the shard is given back soon.
    pub(crate) fn is_leaving(&self, shard: Shard) -> bool {
        self.lock().leaving.contains(&shard)
    }

    /// A key that is at least as large as those of the rows that earlier owners of the shards have stored.
    pub(crate) fn last_key(&self) -> u64 {
        self.last_key.load(Ordering::Relaxed)
    }

    /// Notifies the engine once the leases have ended without a renewal. Never returns.
    pub(crate) async fn watch_end(&self) {
        loop {
            let until = self.lock().valid_until;
            tokio::time::sleep_until(until.unwrap_or_else(|| now() + self.options.renew_every))
                .await;
            let mut held = self.lock();
            if until.is_some() && held.valid_until == until {
                // The next renewal brings back those that no other server has taken.
                *held = HeldShards::default();
                tracing::warn!("the leases of all shards ended: the database could not renew them");
                self.changes.send_replace(());
            }
        }
    }

    /// Renews all leases, and the entry of the server. A server may own shards whose leases it could not renew in time, if no
    /// other server has taken them since.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn renew(&self, client: &Client) -> Result<()> {
        let begin = now();
        let milliseconds = self.options.milliseconds();
        // With the types of its parameters, a statement takes one round trip.
        let renewed = client
            .query_typed(
                "WITH server AS (INSERT INTO servers (name, address, expires_at) \
                 VALUES ($1, $2, now() + $3::float8 * interval '1 millisecond') \
                 ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at), \
                 held AS (SELECT shard FROM shards WHERE owner = $1 ORDER BY shard FOR UPDATE) \
                 UPDATE shards SET expires_at = now() + $3::float8 * interval '1 millisecond' \
                 FROM held WHERE shards.shard = held.shard RETURNING shards.shard, epoch",
                &[
                    (&self.owner, Type::TEXT),
                    (&self.address, Type::TEXT),
                    (&milliseconds, Type::FLOAT8),
                ],
            )
            .await
            .map_err(database_error)?;
        let epochs = read_epochs(&renewed);
        let mut held = self.lock();
        held.valid_until = Some(self.valid_until(begin));
        let before = mem::replace(&mut held.epochs, epochs);
        if held.epochs != before {
            held.leaving.clear();
            let lost = before.keys().filter(|shard| !held.epochs.contains_key(shard)).count();
            if lost > 0 {
                tracing::warn!("{lost} shards belong to other servers now");
            }
            self.changes.send_replace(());
        }
        Ok(())
    }

    /// When the lease of another server with this address ends, in milliseconds of the database's clock; `None` if there is none.
    async fn find_same_address(&self, client: &Client) -> Result<Option<i64>> {
        let find = "SELECT max((extract(epoch FROM expires_at) * 1000)::int8) FROM servers \
                    WHERE address = $1 AND name <> $2 AND expires_at > now()";
        let parameters = [(&self.address as _, Type::TEXT), (&self.owner as _, Type::TEXT)];
        let row = client.query_typed_one(find, &parameters).await.map_err(database_error)?;
        Ok(row.get(0))
    }

    /// Refuses the address of another server. One that renews its lease is at work; another one was killed, and is not waited for.
    ///
    /// # Errors
    /// `ADDRESS_UNUSABLE`; those of the database.
    pub(crate) async fn check_address(&self, client: &Client) -> Result<()> {
        let Some(before) = self.find_same_address(client).await? else {
            return Ok(());
        };
        tokio::time::sleep(self.options.renew_every + self.options.look_every()).await;
        if self.find_same_address(client).await?.is_none_or(|ends| ends <= before) {
            return Ok(());
        }
        let message = format!("another server of the cluster is at {}", self.address);
        Err(Error::new(Code::AddressUnusable, message)
            .with_action("Give each server an address of its own with --advertise"))
    }

    /// Removes the entries of servers that were killed a day ago or before.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn remove_old_servers(&self, client: &Client) -> Result<()> {
        let remove = "DELETE FROM servers WHERE expires_at < now() - interval '1 day'";
        client.execute(remove, &[]).await.map(drop).map_err(database_error)
    }

    /// Takes shards without an owner, or gives some back, so that all servers own as many.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn share(&self, client: &Client) -> Result<()> {
        let row = client
            .query_typed_one(
                "SELECT (SELECT count(*) FROM servers WHERE expires_at > now()), \
                 (SELECT count(*) FROM shards WHERE expires_at < now())",
                &[],
            )
            .await
            .map_err(database_error)?;
        let (servers, free) = (from_int8(row.get(0)).max(1), from_int8(row.get(1)));
        let most = usize::try_from(u64::from(SHARD_COUNT).div_ceil(servers)).unwrap_or_default();
        let held = self.list().len();
        let freed = self.choose_leaving(held.saturating_sub(most));
        if !freed.is_empty() {
            self.give_back(client, &freed).await
        } else if held < most && free > 0 {
            self.take(client, most - held).await
        } else {
            Ok(())
        }
    }

    async fn take(&self, client: &Client, most: usize) -> Result<()> {
        let begin = now();
        let taken = client
            .query(
                "WITH free AS (SELECT shard FROM shards WHERE expires_at < now() ORDER BY shard LIMIT $4 FOR UPDATE) \
                 UPDATE shards SET owner = $1, epoch = epoch + 1, address = $2, \
                 expires_at = now() + $3::float8 * interval '1 millisecond' \
                 FROM free WHERE shards.shard = free.shard RETURNING shards.shard, epoch",
                &[&self.owner, &self.address, &self.options.milliseconds(), &to_int8(most)],
            )
            .await
            .map_err(database_error)?;
        if taken.is_empty() {
            return Ok(());
        }
        let last = client
            .query_one(
                "SELECT greatest((SELECT max(seq) FROM journal), (SELECT max(seq) FROM refusals), 0)",
                &[],
            )
            .await
            .map_err(database_error)?;
        self.last_key.fetch_max(from_int8(last.get(0)), Ordering::Relaxed);
        let mut held = self.lock();
        // Keeps the earlier instant: one instant serves all shards, and those that were held before end first.
        held.valid_until.get_or_insert(self.valid_until(begin));
        held.epochs.extend(read_epochs(&taken));
        self.changes.send_replace(());
        Ok(())
    }

    /// Chooses `count` shards to give back, and returns those of the last choice whose work has ended. Until the next choice, no
    /// attempt begins in a chosen shard, and those that wait to begin are postponed: otherwise the next owner could not tell that
    /// they have done nothing. A shard with a running attempt is chosen only once that has ended.
    fn choose_leaving(&self, count: usize) -> Vec<Shard> {
        if count == 0 && self.lock().leaving.is_empty() {
            return Vec::new();
        }
        let mut stages = BTreeMap::new();
        for (id, stage) in self.list_busy.get().map(|list| list()).unwrap_or_default() {
            let known = stages.entry(Shard::of_execution(&id)).or_insert(stage);
            *known = stage.max(*known);
        }
        let mut held = self.lock();
        let mut shards: Vec<_> = held.epochs.keys().copied().collect();
        shards.retain(|shard| stages.get(shard) != Some(&AttemptStage::Running));
        shards.sort_by_key(|shard| (!held.leaving.contains(shard), stages.get(shard)));
        shards.truncate(count);
        let (freed, leaving): (Vec<_>, Vec<_>) = shards
            .into_iter()
            .partition(|shard| held.leaving.contains(shard) && !stages.contains_key(shard));
        held.epochs.retain(|shard, _| !freed.contains(shard));
        // Also differs where shards are freed: they were in the last choice.
        let leaving = leaving.into_iter().collect();
        if held.leaving != leaving {
            held.leaving = leaving;
            self.changes.send_replace(());
        }
        freed
    }

    /// Gives shards back that this server does not use any more.
    async fn give_back(&self, client: &Client, shards: &[Shard]) -> Result<()> {
        let numbers: Vec<_> = shards.iter().map(|shard| shard.number()).collect();
        let freed = client.execute(FREE_SHARDS, &[&self.owner, &numbers]).await;
        freed.map(drop).map_err(database_error)
    }

    /// Gives all shards back, so that another server can take them at once.
    ///
    /// # Errors
    /// Those of the database. The leases then end after their time.
    pub(crate) async fn release(&self, client: &Client) -> Result<()> {
        *self.lock() = HeldShards::default();
        // Removes the server first, so that the others no longer count it when they share the shards.
        let remove = "DELETE FROM servers WHERE name = $1";
        client.execute(remove, &[&self.owner]).await.map_err(database_error)?;
        let all: Vec<_> = (0..i32::from(SHARD_COUNT)).collect();
        let freed = client.execute(FREE_SHARDS, &[&self.owner, &all]).await;
        freed.map(drop).map_err(database_error)
    }

    /// Until when this server uses leases that it requested at `begin`.
    fn valid_until(&self, begin: Instant) -> Instant {
        begin + self.options.duration - self.options.margin()
    }
}

fn read_epochs(rows: &[Row]) -> BTreeMap<Shard, i64> {
    rows.iter().filter_map(|row| Some((Shard::from_number(row.get(0))?, row.get(1)))).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "leases are counted by the clock that never goes back"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
