//! Whether a JSON document is as its schema says: the words of JSON Schema that our own schemas use. Any other word in a schema is
//! a failure, so that none is passed over.

use serde_json::Value;

/// Panics with the place and the reason where the document is not as the schema says.
pub fn assert_valid(document: &Value, schema: &Value) {
    if let Err(why) = check(document, schema, "$") {
        panic!("{why}");
    }
}

fn check(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    let Some(words) = schema.as_object() else {
        return if schema == &Value::Bool(true) { Ok(()) } else { Err(format!("{at}: nothing may be here")) };
    };
    for (word, wanted) in words {
        match word.as_str() {
            "$schema" | "title" | "description" | "default" | "format" => {}
            "type" => is_of_type(value, wanted, at)?,
            "const" if value == wanted => {}
            "enum" if wanted.as_array().unwrap().contains(value) => {}
            "const" | "enum" => return Err(format!("{at}: {value} is not {wanted}")),
            "minimum" => {
                number(value).map_or(Ok(()), |n| within(n >= wanted.as_f64().unwrap(), value, at))?
            }
            "maximum" => {
                number(value).map_or(Ok(()), |n| within(n <= wanted.as_f64().unwrap(), value, at))?
            }
            "anyOf" | "oneOf" => {
                let mut each = wanted.as_array().unwrap().iter().map(|one| check(value, one, at));
                if !each.any(|one| one.is_ok()) {
                    return Err(format!("{at}: {value} is none of {wanted}"));
                }
            }
            "items" => value
                .as_array()
                .into_iter()
                .flatten()
                .try_for_each(|one| check(one, wanted, &format!("{at}[]")))?,
            "required" => required(value, wanted, at)?,
            "properties" | "additionalProperties" | "patternProperties" => {}
            other => return Err(format!("{at}: this reader of schemas does not know `{other}`")),
        }
    }
    properties(value, schema, at)
}

fn properties(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    for (name, field) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Null) => {}
            (Value::Null, others) => check(field, others, &at)?,
            (own, _) => check(field, own, &at)?,
        }
    }
    Ok(())
}

fn required(value: &Value, names: &Value, at: &str) -> Result<(), String> {
    let missing = names.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
    match (value.is_object(), missing) {
        (true, Some(name)) => Err(format!("{at}: {name} is missing")),
        _ => Ok(()),
    }
}

fn is_of_type(value: &Value, wanted: &Value, at: &str) -> Result<(), String> {
    let of = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("no type `{other}`"),
    };
    let fits = wanted.as_array().map_or_else(|| of(wanted), |all| all.iter().any(of));
    if fits { Ok(()) } else { Err(format!("{at}: {value} is no {wanted}")) }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn within(fits: bool, value: &Value, at: &str) -> Result<(), String> {
    if fits { Ok(()) } else { Err(format!("{at}: {value} is out of range")) }
}
