//! JSON in the clothes of JavaScript: values that are known without running anything.

use oxc::ast::ast::{ArrayExpressionElement, Expression, ObjectExpression, ObjectPropertyKind};
use oxc::span::{GetSpan, Span};
use oxc::syntax::operator::{BinaryOperator, UnaryOperator};
use serde_json::{Map, Number, Value};

/// The value of a literal, or the part of it that is none.
pub(super) fn value(expression: &Expression<'_>) -> Result<Value, Span> {
    let expression = expression.get_inner_expression();
    match expression {
        Expression::NullLiteral(_) => Ok(Value::Null),
        Expression::BooleanLiteral(literal) => Ok(Value::Bool(literal.value)),
        Expression::NumericLiteral(literal) => number(literal.value).ok_or(literal.span),
        Expression::ObjectExpression(literal) => object(literal).map(Value::Object),
        Expression::ArrayExpression(literal) => {
            let items = literal.elements.iter().map(|element| match element {
                ArrayExpressionElement::SpreadElement(_) | ArrayExpressionElement::Elision(_) => {
                    Err(element.span())
                }
                other => value(other.to_expression()),
            });
            items.collect::<Result<_, _>>().map(Value::Array)
        }
        Expression::UnaryExpression(unary) if unary.operator == UnaryOperator::UnaryNegation => {
            match unary.argument.get_inner_expression() {
                Expression::NumericLiteral(literal) => number(-literal.value).ok_or(unary.span),
                other => Err(other.span()),
            }
        }
        _ => text(expression).map(Value::String),
    }
}

/// Text: a string, a template without holes, or several of them added up.
pub(super) fn text(expression: &Expression<'_>) -> Result<String, Span> {
    let mut parts = Vec::new();
    let mut rest = expression.get_inner_expression();
    // Sums lean to the left; a long one is walked, not recursed into.
    while let Expression::BinaryExpression(sum) = rest {
        if sum.operator != BinaryOperator::Addition {
            return Err(sum.span);
        }
        parts.push(plain(sum.right.get_inner_expression())?);
        rest = sum.left.get_inner_expression();
    }
    parts.push(plain(rest)?);
    parts.reverse();
    Ok(parts.concat())
}

fn plain(expression: &Expression<'_>) -> Result<String, Span> {
    match expression {
        Expression::StringLiteral(literal) => Ok(literal.value.to_string()),
        Expression::TemplateLiteral(literal) => {
            let whole = literal.single_quasi().ok_or(literal.span)?;
            Ok(whole.to_string())
        }
        other => Err(other.span()),
    }
}

/// The fields of an object, with their names.
pub(super) fn object(literal: &ObjectExpression<'_>) -> Result<Map<String, Value>, Span> {
    let mut fields = Map::new();
    for property in &literal.properties {
        let ObjectPropertyKind::ObjectProperty(property) = property else { return Err(property.span()) };
        if property.computed || property.method || property.shorthand {
            return Err(property.span);
        }
        let name = property.key.static_name().ok_or(property.span)?;
        fields.insert(name.into_owned(), value(&property.value)?);
    }
    Ok(fields)
}

/// A number, whole if it is.
fn number(value: f64) -> Option<Value> {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and small enough to be exact")]
        return Some(Value::Number(Number::from(value as i64)));
    }
    Number::from_f64(value).map(Value::Number)
}
