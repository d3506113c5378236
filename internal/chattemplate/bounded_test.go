package chattemplate

import (
	"strings"
	"testing"
)

func TestUnboundedTemplatesAreRefused(t *testing.T) {
	for name, source := range map[string]string{
		"a macro that calls itself":  `{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}`,
		"two that call each other":   `{%- macro a(x) -%}{{ b(x) }}{%- endmacro -%}{%- macro b(x) -%}{{ a (x) }}{%- endmacro -%}{{ a(1) }}`,
		"a string multiplied":        `{{ 'x' * 9999999999 }}`,
		"a number before the string": `{{ 9999999999 * 'x' }}`,
		"multiplied in steps":        `{% set s = 'x' * 9999 %}{% set s = s * 9999 %}{{ s }}`,
		"too long":                   strings.Repeat("x", maxSource+1),
	} {
		if _, err := Parse(source); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, source := range map[string]string{
		"a macro":             `{% macro a(x) %}{{ x }}{% endmacro %}{{ a(1) }}`,
		"macros in a row":     `{% macro b(x) %}{{ x }}{% endmacro %}{% macro a(x) %}{{ b(x) }}{% endmacro %}{{ a(1) }}`,
		"an indent":           `{{ ' ' * 4 }}`,
		"a name that is near": `{% macro a(x) %}{{ aa }}{% endmacro %}{{ a(1) }}`,
	} {
		if _, err := Parse(source); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
