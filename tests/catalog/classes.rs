//! The classes of operations: that of the method, raised by words of the document that tell of a removal.

use midex_catalog::{
    document::compile_document,
    operation::{Method, OperationClass},
};
use serde_json::json;

#[test]
fn words_raise_the_class_of_a_method_and_never_lower_it() {
    use Method::{Delete, Get, Patch, Post, Put};
    use OperationClass::{Destructive, Safe, Standard};
    for (class, method, path, id, summary) in [
        (Destructive, Post, "/containers/prune", "", ""),
        (Destructive, Post, "/containers/{id}/kill", "", ""),
        (Destructive, Post, "/tokens/{id}", "revokeToken", ""),
        (Destructive, Post, "/users/{id}/ban", "", ""),
        (Destructive, Put, "/guilds/{id}/bans/{user}", "", ""),
        (Destructive, Post, "/chat.delete", "chat_delete", ""),
        (Destructive, Post, "/x", "", "Bulk removal of items"),
        (Destructive, Post, "/x", "", "Update items, deleting the rest"),
        (Destructive, Patch, "/x", "ResetPassword", ""),
        (Destructive, Post, "/x", "", "Unlinks an account"),
        (Destructive, Post, "/x", "instances.terminate", ""),
        (Destructive, Get, "/tokens/{id}/revoke", "getRevoke", ""),
        (Destructive, Get, "/cache/purge", "", ""),
        (Destructive, Get, "/x", "deleteUser", ""),
        (Destructive, Get, "/x/reset", "", ""),
        (Destructive, Get, "/x", "", "Immediately terminates it"),
        (Destructive, Delete, "/x", "getThing", "Get a thing"),
        (Safe, Get, "/guilds/{id}/bans", "list_bans", "List bans"),
        (Safe, Get, "/users/{id}/ban", "getBan", ""),
        (Safe, Get, "/deletions", "", "Deletions of a user"),
        (Safe, Get, "/x", "", "Get an item that was removed"),
        (Standard, Post, "/x", "", "Restore a deleted item"),
        (Standard, Post, "/x/{reset_token}", "", ""),
        (Standard, Post, "/unban", "unbanUser", ""),
        (Standard, Post, "/x", "", "Add a file. Use DELETE to remove it"),
        (Standard, Put, "/urban/banners", "updateBanner", ""),
        (Standard, Post, "/x", "get_thing", "Get things by a query"),
    ] {
        let word = method.as_str().to_lowercase();
        let mut operation = json!({ "operationId": id, "summary": summary, "responses": {} });
        operation.as_object_mut().unwrap().retain(|_, value| value != "");
        let document = json!({
            "openapi": "3.1.0", "info": { "title": "x", "version": "1" },
            "paths": { path: { word: operation } }
        });
        let compiled = compile_document(document.to_string().as_bytes()).unwrap();
        let told = compiled.operations[0].class;
        assert_eq!(told, class, "{} {path} {id} {summary}", method.as_str());
    }
}
