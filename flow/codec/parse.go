package codec

import (
	"fmt"
	"strconv"
	"strings"
)

// maxMin bounds the smallest encoding of a stored schema, in bytes: a larger one is no schema of a Go type.
const maxMin = 1 << 30

// parse reads the text of a schema.
func parse(text string) (*node, error) {
	p := parser{rest: text}
	n, err := p.node(0)
	if err != nil {
		return nil, fmt.Errorf("schema at byte %d: %w", len(text)-len(p.rest), err)
	}
	if p.rest != "" {
		return nil, fmt.Errorf("schema at byte %d: %q is left over", len(text)-len(p.rest), clip(p.rest))
	}
	return n, nil
}

func clip(s string) string { return s[:min(len(s), 20)] }

// parser holds what is not read yet.
type parser struct {
	rest string
}

func (p *parser) take(prefix string) bool {
	var ok bool
	p.rest, ok = strings.CutPrefix(p.rest, prefix)
	return ok
}

func (p *parser) want(token string) error {
	if !p.take(token) {
		return fmt.Errorf("want %q, found %q", token, clip(p.rest))
	}
	return nil
}

func (p *parser) node(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	n, err := p.composite(depth)
	if err != nil {
		return nil, err
	}
	if n == nil {
		if n, err = p.word(); err != nil {
			return nil, err
		}
	}
	if n.min() > maxMin || n.min() < 0 {
		return nil, fmt.Errorf("a value takes more than %d bytes", maxMin)
	}
	return n, nil
}

// composite reads a schema that begins with punctuation or has parts; nil if there is none.
func (p *parser) composite(depth int) (n *node, err error) {
	switch {
	case p.take("[]"):
		n = &node{kind: kindList}
	case p.take("*"):
		n = &node{kind: kindOptional}
	case p.take("["):
		n = &node{kind: kindArray}
		if n.size, err = p.number(maxArray); err != nil {
			return nil, err
		}
		if err := p.want("]"); err != nil {
			return nil, err
		}
	case p.take("map["):
		n = &node{kind: kindMap}
		if n.key, err = p.node(depth + 1); err != nil {
			return nil, err
		}
		if err := p.want("]"); err != nil {
			return nil, err
		}
	case p.take("{"):
		return p.fields(&node{kind: kindStruct}, depth)
	case p.take("oneof{"):
		return p.fields(&node{kind: kindOneOf}, depth)
	default:
		return nil, nil
	}
	n.elem, err = p.node(depth + 1)
	return n, err
}

func (p *parser) fields(n *node, depth int) (*node, error) {
	seen := map[string]bool{}
	for !p.take("}") {
		if len(n.fields) > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
		}
		name, err := p.quoted()
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("field %q occurs twice", name)
		}
		seen[name] = true
		if err := p.want(":"); err != nil {
			return nil, err
		}
		e, err := p.node(depth + 1)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, field{name, e})
	}
	return n, nil
}

// word reads a schema that is one word, with arguments or without.
func (p *parser) word() (*node, error) {
	end := 0
	for end < len(p.rest) && (p.rest[end] >= 'a' && p.rest[end] <= 'z' || p.rest[end] >= '0' && p.rest[end] <= '9') {
		end++
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	if word == "raw" {
		return p.raw()
	}
	for k, name := range kindNames {
		if name != word || word == "" {
			continue
		}
		n := &node{kind: kind(k)}
		if n.kind == kindOpaque || n.kind == kindProto || n.kind == kindCustom {
			return p.arguments(n)
		}
		return n, nil
	}
	return nil, fmt.Errorf("unknown word %q before %q", word, clip(p.rest))
}

func (p *parser) raw() (*node, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	size, err := p.number(maxArray)
	if err != nil {
		return nil, err
	}
	return &node{kind: kindRaw, size: size}, p.want(")")
}

func (p *parser) arguments(n *node) (_ *node, err error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	if n.name, err = p.quoted(); err != nil {
		return nil, err
	}
	if n.kind == kindCustom {
		if err := p.want(","); err != nil {
			return nil, err
		}
		version, err := p.number(1<<32 - 1)
		if err != nil {
			return nil, err
		}
		n.version = uint32(version)
	}
	return n, p.want(")")
}

func (p *parser) quoted() (string, error) {
	q, err := strconv.QuotedPrefix(p.rest)
	if err != nil || q[0] != '"' {
		return "", fmt.Errorf("want a quoted name, found %q", clip(p.rest))
	}
	p.rest = p.rest[len(q):]
	return strconv.Unquote(q)
}

func (p *parser) number(limit int) (int, error) {
	end := 0
	for end < len(p.rest) && p.rest[end] >= '0' && p.rest[end] <= '9' {
		end++
	}
	x, err := strconv.ParseUint(p.rest[:end], 10, 64)
	if err != nil || x > uint64(limit) {
		return 0, fmt.Errorf("bad number %q", clip(p.rest))
	}
	p.rest = p.rest[end:]
	return int(x), nil
}
