//! What pages are served with, for the crates that serve some.

pub use axum::{
    Extension,
    extract::{DefaultBodyLimit, Form, Path, Query, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{Next, from_fn_with_state, map_response},
    response::{Html, IntoResponse, Redirect, Response, Sse, sse},
    routing::{get, post},
};
