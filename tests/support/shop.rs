//! A document of OpenAPI that several tests import.

use serde_json::{Value, json};

/// A document of a shop. An order has parts (`allOf`), a choice (`anyOf`) and a field that may hold anything.
pub fn document() -> Value {
    let answer = |schema: Value| json!({ "200": { "description": "", "content": { "application/json": { "schema": schema } } } });
    let done = json!({ "204": { "description": "" } });
    let text = json!({ "type": "string" });
    let order = json!({ "$ref": "#/components/schemas/Order" });
    let filter = json!({ "type": "object", "required": ["state"], "properties": { "state": { "enum": ["open", "sent"] } } });
    let body = json!({ "content": { "application/json": { "schema": {
        "type": "object", "required": ["item"],
        "properties": { "item": text, "count": { "type": "integer", "minimum": 1 }, "to": { "type": "object", "properties": { "zip": text } } }
    } } } });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Shop", "version": "1" },
        "servers": [{ "url": "https://shop.example/api" }],
        "paths": {
            "/orders": {
                "get": {
                    "parameters": [
                        { "name": "limit", "in": "query", "schema": { "type": "integer", "maximum": 100 } },
                        { "name": "cursor", "in": "query", "schema": text },
                        { "name": "filter", "in": "query", "content": { "application/json": { "schema": filter } } }
                    ],
                    "responses": answer(json!({ "type": "object", "properties": {
                        "data": { "type": "array", "items": order }, "cursor": text, "errors": { "type": "array", "items": text } } }))
                },
                "post": { "requestBody": body, "responses": answer(order.clone()) }
            },
            "/orders/{order}": {
                "parameters": [{ "name": "order", "in": "path", "required": true, "schema": text }],
                "get": { "responses": answer(order.clone()) },
                "delete": { "responses": done }
            },
            "/customers": { "get": {
                "responses": answer(json!({ "type": "array", "items": { "$ref": "#/components/schemas/Customer" } })) } },
            "/customers/{customer}/addresses": { "get": {
                "parameters": [
                    { "name": "customer", "in": "path", "required": true, "schema": text },
                    { "name": "country", "in": "query", "schema": text }
                ],
                "responses": answer(json!({ "type": "object", "properties": { "addresses": { "type": "array", "items": {
                    "type": "object", "properties": { "address": { "type": "object", "properties": { "id": text, "street": text } }, "label": text }
                } } } }))
            } },
            "/search": { "post": { "requestBody": body, "responses": answer(json!({ "type": "array", "items": order })) } }
        },
        "components": { "schemas": {
            "Customer": { "type": "object", "properties": { "id": text, "name": text } },
            "Order": {
                "allOf": [{ "type": "object", "required": ["id"], "properties": { "id": text, "state": text } }],
                "type": "object",
                "properties": {
                    "customer": { "$ref": "#/components/schemas/Customer" },
                    "lines": { "type": "array", "items": { "type": "object", "properties": { "sku": text, "count": { "type": "integer" } } } },
                    "notes": { "type": "object", "additionalProperties": true },
                    "payment": { "anyOf": [
                        { "type": "object", "properties": { "card": text } },
                        { "type": "object", "properties": { "iban": text } },
                        { "type": "null" }
                    ] },
                    "next": { "$ref": "#/components/schemas/Order" }
                }
            }
        } }
    })
}
