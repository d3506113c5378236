package lockfile

import (
	"errors"
	"fmt"
	"path"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// maxHCL is the size in bytes beyond which HCL is not read: its tokens take a
// hundred times as much memory. A lock of fifty providers has about 100 KB.
const maxHCL = 512 << 10

// parseHCL parses a file of HCL's own syntax.
func parseHCL(f File) (*hclsyntax.Body, error) {
	data := trimBOM(f.Data)
	if len(data) > maxHCL {
		return nil, fmt.Errorf("it has %d KiB; HCL of more than %d KiB is not read", len(data)>>10, maxHCL>>10)
	}
	if err := shallowHCL(data); err != nil {
		return nil, err
	}
	file, diags := hclsyntax.ParseConfig(data, path.Base(f.Path), hcl.InitialPos)
	if diags.HasErrors() {
		for _, d := range diags {
			if d.Severity == hcl.DiagError && d.Subject != nil {
				return nil, atLine(d.Subject.Start.Line, "line %d: %s", d.Subject.Start.Line, d.Summary)
			}
		}
		return nil, errors.New("it is not valid HCL")
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, errors.New("it is not valid HCL")
	}
	return body, nil
}

// constant is an attribute's text, or "" when it is absent or computed.
func constant(b *hclsyntax.Body, name string) string {
	a, ok := b.Attributes[name]
	if !ok {
		return ""
	}
	return constantText(a.Expr)
}

func constantText(e hclsyntax.Expression) string {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

func constants(b *hclsyntax.Body, name string) []string {
	a, ok := b.Attributes[name]
	if !ok {
		return nil
	}
	list, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	if !ok {
		return nil
	}
	var out []string
	for _, e := range list.Exprs {
		out = append(out, constantText(e))
	}
	return out
}

// shallowHCL refuses HCL on which its parser would recurse too deeply: brackets,
// templates, chains of signs (`!!!!x`) and of conditions (`a ? b : c ? d : e`).
func shallowHCL(data []byte) error {
	tokens, _ := hclsyntax.LexConfig(data, "", hcl.InitialPos) // ParseConfig tells what is wrong
	depth, signs, conditions := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth = max(0, depth-1)
		case hclsyntax.TokenBang, hclsyntax.TokenMinus:
			signs++
		case hclsyntax.TokenQuestion:
			conditions++
		case hclsyntax.TokenEqual, hclsyntax.TokenComma:
			conditions = 0
		}
		switch t.Type {
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenNewline, hclsyntax.TokenComment:
		default:
			signs = 0
		}
		if max(depth, signs, conditions) > maxDepth {
			return atLine(t.Range.Start.Line, "line %d nests deeper than %d levels", t.Range.Start.Line, maxDepth)
		}
	}
	return nil
}
