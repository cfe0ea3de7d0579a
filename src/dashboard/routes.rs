//! The paths, and the replies.

use maud::html;
use serde::Deserialize;
use serde_json::json;

use crate::{
    access::{self, Address, Proof},
    act, live, pages,
    replies::{error_response, plain_page, refuse},
    state::Dashboard,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_http::{
    Router,
    access::AccessRules,
    web::{
        DefaultBodyLimit, HeaderValue, Html, IntoResponse, Next, Query, Redirect, Request,
        Response, State, StatusCode, Uri, from_fn_with_state, get, header, post,
    },
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const ICON: &str = include_str!("icon.svg");

/// The routes of a dashboard.
///
/// # Errors
/// `INTERNAL` if the host name is none.
pub(crate) fn router(dashboard: Dashboard, address: &Address) -> Result<Router> {
    let pages = Router::new()
        .route("/live", get(live::stream))
        .route("/link", post(add_link))
        .route("/act/{action}", post(act::act))
        .route("/graph/{list}/{name}", get(show_picture))
        .route("/timeline/{list}/{name}", get(show_picture))
        .route("/", get(show_page))
        .route("/{*path}", get(show_page))
        .layer(DefaultBodyLimit::max(limits::DASHBOARD_FORM_BYTES_MAX))
        .route_layer(from_fn_with_state(dashboard.clone(), admit));
    let open = Router::new()
        .route("/enter", get(enter))
        .route("/style.css", get(async || (content_type("text/css"), style_sheet())))
        .route("/script.js", get(async || (content_type("text/javascript"), SCRIPT)))
        .route("/icon.svg", get(async || (content_type("image/svg+xml"), ICON)));
    let router = pages.merge(open).with_state(dashboard);
    let rules = AccessRules::new(address.listen, Vec::new(), None, &["cookie"])
        .with_own_name(address.host_name()?);
    Ok(rules.protect_routes(router, |error| refuse(&error)).layer(midex_http::web::map_response(
        async |mut response: Response| {
            access::add_security_headers(&mut response);
            response
        },
    )))
}

fn style_sheet() -> String {
    format!("{STYLE}{}", midex_picture::INLINE_STYLE)
}

fn content_type(name: &'static str) -> [(header::HeaderName, &'static str); 1] {
    [(header::CONTENT_TYPE, name)]
}

/// Admits requests with the cookie or the bearer token.
async fn admit(State(dashboard): State<Dashboard>, mut request: Request, next: Next) -> Response {
    if let Some(proof) = dashboard.access.find_proof(request.headers()) {
        request.extensions_mut().insert(proof);
        return next.run(request).await;
    }
    let message = "Open the dashboard with `midex dashboard`: it prints a link that is valid once";
    let again = html! { p { (message) "." } p { a href="/" { "Try again" } } };
    let page = plain_page("Not signed in", &again);
    (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
}

#[derive(Deserialize)]
struct EntryQuery {
    #[serde(default)]
    key: String,
}

/// Uses up a link: gives the browser the cookie, and leads it to the first page.
async fn enter(State(dashboard): State<Dashboard>, Query(query): Query<EntryQuery>) -> Response {
    let mut response = if dashboard.access.use_link(&query.key) {
        let mut response = Redirect::to("/").into_response();
        if let Ok(cookie) = HeaderValue::from_str(&dashboard.access.set_cookie_header()) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    } else {
        let text = html! { p { "The link was used already, or is older than a minute. Run " code { "midex dashboard" } " again." } };
        (StatusCode::FORBIDDEN, Html(plain_page("Link not valid", &text).into_string()))
            .into_response()
    };
    let no_referrer = HeaderValue::from_static("no-referrer");
    response.headers_mut().insert(header::REFERRER_POLICY, no_referrer);
    response
}

/// Makes a link, for `midex dashboard`, which has the token.
async fn add_link(
    State(dashboard): State<Dashboard>,
    proof: midex_http::web::Extension<Proof>,
) -> Response {
    if proof.0 != Proof::Token {
        return refuse(&Error::new(Code::Forbidden, "only `midex dashboard` makes links"));
    }
    let path = format!("/enter?key={}", dashboard.access.add_link());
    json!({ "path": path, "is_read_only": dashboard.viewer.is_read_only })
        .to_string()
        .into_response()
}

/// A page.
async fn show_page(State(dashboard): State<Dashboard>, uri: Uri) -> Response {
    let address = uri.path_and_query().map_or("/", |address| address.as_str());
    match pages::render(&dashboard.viewer, address).await {
        Ok(page) => Html(page.render(&dashboard.viewer, uri.path()).into_string()).into_response(),
        Err(error) => error_response(&dashboard.viewer, &error, "/"),
    }
}

/// A picture beside a page. Its styles stand in the file, and it can load and run nothing.
async fn show_picture(State(dashboard): State<Dashboard>, uri: Uri) -> Response {
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    match pages::draw(&dashboard.viewer, &uri).await {
        Ok(picture) => {
            let policy = [(header::CONTENT_SECURITY_POLICY, POLICY)];
            (content_type("image/svg+xml"), policy, picture).into_response()
        }
        Err(error) => error_response(&dashboard.viewer, &error, "/"),
    }
}
