//! `peers NAME DIRECTORY`: runs the same workflow of five durable steps on one library, in turns that standard input asks
//! for: `{"in_flight": 64, "seconds": 2}` on a line is answered by a line with what was measured. `benches/peers/run`
//! asks.

mod cano;
mod durare;
mod duroxide;
#[path = "../../../support/manifest.rs"]
mod manifest;
mod midex;

use std::{
    env,
    error::Error,
    io::{self, BufRead},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Steps of the workflow.
const STEPS: u32 = 5;

/// What each step comes to.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Output {
    summary: String,
    at: u32,
}

/// The work of a step.
fn work(at: u32) -> Output {
    Output {
        summary: "done".into(),
        at,
    }
}

/// A library that can run the workflow.
trait Engine: Send + Sync + 'static {
    /// Takes an execution of this name from its start to its end. An error where any step did not end as it should.
    fn run(&self, name: String) -> impl Future<Output = Result<()>> + Send;
}

/// A turn that is asked for.
#[derive(Clone, Copy, Deserialize)]
struct Turn {
    in_flight: usize,
    seconds: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [name, directory] = &arguments[..] else {
        return Err("expected a name and a directory".into());
    };
    let directory = Path::new(directory);
    match name.as_str() {
        "midex" => serve(midex::Midex::open(directory).await?).await,
        "durare" => serve(durare::Durare::open(directory, false).await?).await,
        "durare-full" => serve(durare::Durare::open(directory, true).await?).await,
        "duroxide" => serve(duroxide::Duroxide::open(directory).await?).await,
        "cano" => serve(cano::Cano::open(directory)?).await,
        _ => Err(format!("there is no engine `{name}` here").into()),
    }
}

async fn serve(engine: impl Engine) -> Result<()> {
    let engine = Arc::new(engine);
    println!("{}", json!({ "engine": [std::process::id()] }));
    for line in io::stdin().lock().lines() {
        let turn: Turn = serde_json::from_str(&line?)?;
        let (seconds, mut took) = measure(&engine, turn).await?;
        took.sort_unstable();
        let at = |share: usize| took[(took.len() - 1) * share / 100].as_secs_f64();
        let answer =
            json!({ "workflows": took.len(), "seconds": seconds, "p50": at(50), "p99": at(99) });
        println!("{answer}");
    }
    Ok(())
}

/// Lets so many clients run one workflow after another: how long it lasted, and how long each workflow took.
async fn measure(engine: &Arc<impl Engine>, turn: Turn) -> Result<(f64, Vec<Duration>)> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let (began, mut lanes) = (Instant::now(), JoinSet::new());
    for _ in 0..turn.in_flight {
        let engine = Arc::clone(engine);
        lanes.spawn(async move {
            let mut took = Vec::new();
            while took.is_empty() || began.elapsed().as_secs_f64() < turn.seconds {
                let name = format!("execution-{}", LAST.fetch_add(1, Ordering::Relaxed));
                let asked = Instant::now();
                engine.run(name).await?;
                took.push(asked.elapsed());
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(took)
        });
    }
    let mut all = Vec::new();
    while let Some(took) = lanes.join_next().await {
        all.extend(took??);
    }
    Ok((began.elapsed().as_secs_f64(), all))
}
