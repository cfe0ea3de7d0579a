//! Connection slots of the control socket. A client that has sent no preamble can be disconnected to make room for
//! others. Relays stay connected for long, so they have separate slots.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::preamble::{ClientInfo, ClientRole};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The size of one client in the greeting, without its project path and version.
const GREETING_CLIENT_BYTES: usize = 128;

/// [`limits::CONTROL_CLIENTS_MAX`] slots for commands and for clients that have not sent their preamble, and
/// [`limits::RELAYS_MAX`] slots for relays.
#[derive(Debug)]
pub(super) struct ClientSlots {
    slots: Arc<Semaphore>,
    relay_slots: Arc<Semaphore>,
    /// The clients that have not sent their preamble, by number, so in the order of connection.
    silent_clients: Mutex<BTreeMap<u64, SilentClient>>,
    /// The clients that have sent their preamble.
    clients: Mutex<BTreeMap<u64, ClientInfo>>,
    next_number: AtomicU64,
}

#[derive(Clone, Debug)]
struct SilentClient {
    since: Instant,
    disconnect_token: CancellationToken,
}

/// A client that occupies a slot.
#[derive(Debug)]
pub(super) struct SlotHolder {
    client_slots: Arc<ClientSlots>,
    number: u64,
    disconnect_token: CancellationToken,
    /// The permit of its slot. Acquiring cannot fail, since the semaphores are never closed.
    permit: Option<OwnedSemaphorePermit>,
}

impl Default for ClientSlots {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(limits::CONTROL_CLIENTS_MAX)),
            relay_slots: Arc::new(Semaphore::new(limits::RELAYS_MAX)),
            clients: Mutex::default(),
            silent_clients: Mutex::default(),
            next_number: AtomicU64::default(),
        }
    }
}

impl ClientSlots {
    fn lock_silent_clients(&self) -> MutexGuard<'_, BTreeMap<u64, SilentClient>> {
        self.silent_clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_known_clients(&self) -> MutexGuard<'_, BTreeMap<u64, ClientInfo>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clients that have sent their preamble, in the order of connection, as many as fit into a greeting.
    pub(super) fn known_clients(&self) -> Vec<ClientInfo> {
        let mut bytes = 0;
        let clients = self.lock_known_clients();
        let fitting_clients = clients.values().take_while(|client| {
            bytes += client.project_dir.len() + client.midex.len() + GREETING_CLIENT_BYTES;
            bytes as u64 <= limits::CONTROL_PREAMBLE_BYTES_MAX / 2
        });
        fitting_clients.cloned().collect()
    }

    /// Waits for a slot for the next client. Called for one client at a time.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a caller is silent is no time of an execution"
    )]
    pub(super) async fn take_slot(self: &Arc<Self>) -> SlotHolder {
        let permit = tokio::select! {
            biased;
            place = self.slots.clone().acquire_owned() => place,
            // The slot becomes free once the disconnected client's connection is closed.
            () = self.disconnect_most_silent() => self.slots.clone().acquire_owned().await,
        };
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let disconnect_token = CancellationToken::new();
        let silent_client =
            SilentClient { since: Instant::now(), disconnect_token: disconnect_token.clone() };
        self.lock_silent_clients().insert(number, silent_client);
        SlotHolder { client_slots: self.clone(), number, disconnect_token, permit: permit.ok() }
    }

    /// Disconnects the client that has been silent longest, after at least [`limits::CONTROL_SILENT_MIN`]. Waits
    /// forever if no client is silent.
    async fn disconnect_most_silent(&self) {
        loop {
            let longest_silent =
                self.lock_silent_clients().first_key_value().map(|(_, silent)| silent.since);
            let Some(since) = longest_silent else {
                return std::future::pending().await;
            };
            sleep_until(since + limits::CONTROL_SILENT_MIN).await;
            let mut silent_clients = self.lock_silent_clients();
            // The oldest client may have sent its preamble in the meantime.
            if let Some(entry) =
                silent_clients.first_entry().filter(|entry| entry.get().since == since)
            {
                entry.remove().disconnect_token.cancel();
                return;
            }
        }
    }
}

impl SlotHolder {
    /// Waits for the preamble. `None` if the client is disconnected first.
    pub(super) async fn wait_for_preamble<T>(
        &self,
        preamble_line: impl Future<Output = T>,
    ) -> Option<T> {
        let preamble_result = self.disconnect_token.run_until_cancelled(preamble_line).await;
        preamble_result.filter(|_| self.mark_not_silent())
    }

    /// Records that the client has sent its preamble. A relay moves to a relay slot.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if there are [`limits::RELAYS_MAX`] relays already.
    pub(super) fn record_preamble(&mut self, client: ClientInfo) -> Result<()> {
        if client.role == ClientRole::Relay {
            let permit = self.client_slots.relay_slots.clone().try_acquire_owned();
            self.permit = Some(permit.map_err(|_| too_many_relays_error())?);
        }
        self.client_slots.lock_known_clients().insert(self.number, client);
        Ok(())
    }

    /// Marks the client as not silent, so that it keeps its slot. False if the slot was already given away.
    fn mark_not_silent(&self) -> bool {
        self.client_slots.lock_silent_clients().remove(&self.number).is_some()
    }
}

impl Drop for SlotHolder {
    fn drop(&mut self) {
        self.mark_not_silent();
        self.client_slots.lock_known_clients().remove(&self.number);
    }
}

fn too_many_relays_error() -> Error {
    let message = format!("{} other processes use this data directory already", limits::RELAYS_MAX);
    Error::new(Code::LimitExceeded, message)
        .with_action("Ask your user to end servers that nobody uses any more, or to give this one a data directory of its own with --data-dir")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fill_all_slots(places: &Arc<ClientSlots>) -> Vec<SlotHolder> {
        let mut callers = Vec::new();
        for _ in 0..limits::CONTROL_CLIENTS_MAX {
            callers.push(places.take_slot().await);
        }
        callers
    }

    #[tokio::test(start_paused = true)]
    async fn longest_silent_client_is_evicted() {
        let places = Arc::new(ClientSlots::default());
        let mut callers = fill_all_slots(&places).await;
        assert_eq!(callers[0].wait_for_preamble(async { "who I am" }).await, Some("who I am"));
        let since = places.lock_silent_clients()[&1].since;
        let entering = tokio::spawn({
            let places = places.clone();
            async move { places.take_slot().await }
        });
        let second = callers.remove(1);
        assert_eq!(second.wait_for_preamble(std::future::pending::<()>()).await, None);
        assert_eq!(since.elapsed(), limits::CONTROL_SILENT_MIN);
        assert!(!second.mark_not_silent(), "too late");
        drop(second);
        callers.push(entering.await.expect("a place"));
        let turned_away = callers.iter().filter(|caller| caller.disconnect_token.is_cancelled());
        assert_eq!(turned_away.count(), 0, "one made room for one");
    }

    #[tokio::test(start_paused = true)]
    async fn heard_client_keeps_its_slot() {
        let places = Arc::new(ClientSlots::default());
        let mut callers = fill_all_slots(&places).await;
        for caller in &callers {
            caller.wait_for_preamble(async {}).await.expect("a place");
        }
        let waits =
            tokio::time::timeout(limits::CONTROL_SILENT_MIN * 100, places.take_slot()).await;
        assert!(waits.is_err());
        callers.pop();
        places.take_slot().await;
    }
}
