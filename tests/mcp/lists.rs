//! What a client is shown: tools and resources, under which names, in which pages, and for how long it holds.

mod clients;
mod complete;
mod figures;
mod pages;
mod results;
mod toolsets;

fn underscored(name: &str) -> String {
    name.replace('.', "_")
}
