"""The OpenAPI document of a service, and a page that shows it without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from counterpoise.version import VERSION

PROBLEMS = {
    "400": "Malformed request.",
    "401": "No valid token.",
    "403": "The caller does not have the role.",
    "408": "The content did not arrive in time.",
    "409": "The id was used before, with other values.",
    "413": "The content or the batch is too large.",
    "415": "The content type or encoding is not accepted.",
    "422": "Values that cannot be used; the problem names the field.",
    "429": "Too many requests.",
    "503": "The change could not be written; send it again later.",
}
TYPES = {"number": "number", "cycle": "string", "date": "string", "bool": "boolean"}


def document(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI document of a service, given the description of its model."""
    id, label = description["id"], description["label"]  # noqa: A001
    ids = {"type": ["string", "integer"], "minLength": 1, "maxLength": 1000}
    text = {**ids, "type": "string"}
    features = {
        name: {"type": [TYPES.get(kind, "string"), "null"]}
        for name, kind in description["columns"].items()
    }
    labels = {"type": ["string", "integer", "boolean"], "enum": list(description["classes"])}
    answer = {
        id: {"type": "string"},
        "prediction": {"type": ["string", "integer", "null"]},
        "score": {"type": ["number", "null"]},
        "model": {"type": "string"},
    }
    for kind in ("proba_balanced", "proba_stream"):
        for name in description["classes"]:
            answer[f"{kind}_{name}"] = {"type": ["number", "null"]}
    schemas = {
        "Event": _object({id: ids, **features}, [id]),
        "Label": _object({id: ids, label: labels}, [id, label]),
        "LabeledEvent": _object({id: ids, **features, label: labels}, [id, label]),
        "Answer": _object(answer, [id, "prediction", "model"]),
        "Result": _object({"result": {"type": "string"}}, ["result"]),
        "Problem": _object(
            {
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
                "row": {"type": "integer"},
                "field": {"type": "string"},
            },
            ["title", "status", "detail"],
        ),
    }
    paths = {
        "/predict": {
            "post": _operation(
                "Predict events, and store them until their labels come.",
                "predict", "Answer", _batch("Event"),
            )
        },
        "/label": {
            "post": _operation(
                "Learn events whose labels have come, and correct labels.",
                "label", "Result", _batch("Label"),
            )
        },
        "/learn": {
            "post": _operation(
                "Learn events that have their labels.", "label", "Result", _batch("LabeledEvent")
            )
        },
        "/events/{id}": {
            "delete": {
                **_operation("Erase an event and unlearn it exactly.", "admin", "Result"),
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": text}],
            }
        },
        "/model": {"get": _operation("Describe the model.", "any", None)},
        "/metrics": {"get": _operation("Numbers for Prometheus.", "any", None)},
        "/live": {"get": _operation("Numbers of the page at /, as a stream.", "any", None)},
        "/healthz": {"get": _operation("The process lives.", None, None)},
        "/readyz": {"get": _operation("Changes can be written.", None, None)},
        "/openapi.json": {"get": _operation("This document.", None, None)},
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "counterpoise", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": required}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _batch(name: str) -> dict[str, Any]:
    """Return the schema of one object or several."""
    several = {"type": "array", "minItems": 1, "items": _reference(name)}
    return {"oneOf": [_reference(name), several]}


def _operation(
    summary: str, role: str | None, answer: str | None, content: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the description of an endpoint that requires a role."""
    schema: dict[str, Any] = {"type": ["object", "string"]}
    if answer is not None:
        schema = _reference(answer)
        if content is not None:
            schema = {"oneOf": [schema, {"type": "array", "items": schema}]}
    kind = "text/plain" if "Prometheus" in summary else "application/json"
    kind = "text/event-stream" if "stream" in summary else kind
    found: dict[str, Any] = {
        "200": {"description": "The answer.", "content": {kind: {"schema": schema}}}
    }
    codes = ["403", "503"] if role is None else [*PROBLEMS, "404"]
    for code in codes:
        text = PROBLEMS.get(code, "It does not exist.")
        problem = {"application/problem+json": {"schema": _reference("Problem")}}
        found[code] = {"description": text, "content": problem}
    result: dict[str, Any] = {"summary": summary, "responses": found}
    if role is not None:
        result["security"] = [{"token": []}]
        result["description"] = f"Requires the role {role}." if role != "any" else "Any role."
    if content is not None:
        media: dict[str, Any] = {"application/json": {"schema": content}}
        if role == "predict":
            media["application/vnd.apache.arrow.stream"] = {"schema": {}}
        result["requestBody"] = {"required": True, "content": media}
    return result


def page(content: Mapping[str, Any]) -> str:
    """Return a page about the endpoints of a document."""
    parts = []
    for path, methods in content["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2>")
            parts.append(f"<p>{escape(operation['summary'])} ")
            parts.append(f"{escape(operation.get('description', ''))}</p>")
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                name = schema["oneOf"][0]["$ref"].rpartition("/")[2]
                parts.append(_table(content["components"]["schemas"][name]))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<title>Endpoints</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/style.css"></head><body class="text">'
        "<h1>Endpoints</h1><p>A request has one object or an array of them. A problem is "
        'application/problem+json. The document is <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(parts)}</body></html>"
    )


def _table(schema: Mapping[str, Any]) -> str:
    """Return a table of the fields of an object."""
    rows = []
    for name, one in schema["properties"].items():
        kinds = one["type"] if isinstance(one["type"], list) else [one["type"]]
        shown = ", ".join(map(str, one.get("enum", kinds)))
        needed = "required" if name in schema["required"] else ""
        cells = (f"<code>{escape(name)}</code>", escape(shown), needed)
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<table><tr><th>field</th><th>values</th><th></th></tr>{''.join(rows)}</table>"
