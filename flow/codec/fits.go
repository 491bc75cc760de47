package codec

import "fmt"

// Fits reports why bytes of the schema old cannot be read into a type of the schema now; nil: they can. It is Migrating without
// the type: for whoever has to answer before any program runs.
func Fits(old, now string) error {
	o, err := parse(old)
	if err != nil {
		return err
	}
	n, err := parse(now)
	if err != nil {
		return err
	}
	return readable(o, n, "")
}

func readable(o, n *node, path string) error {
	same := o.kind == n.kind || o.kind >= kindI8 && n.kind <= kindI64 && n.kind > o.kind || o.kind >= kindU8 && n.kind <= kindU64 && n.kind > o.kind
	switch {
	case !same, o.size != n.size, o.name != n.name:
		return unfit(o, n, path)
	case o.version > n.version:
		return fmt.Errorf("%sstored by version %d of codec %q, the program has %d", path, o.version, o.name, n.version)
	}
	for _, x := range []struct {
		old, now *node
		at       string
	}{{o.key, n.key, "[key]"}, {o.elem, n.elem, "[]"}} {
		if x.old != nil {
			if err := readable(x.old, x.now, path+x.at); err != nil {
				return err
			}
		}
	}
	today := map[string]*node{}
	for _, f := range n.fields {
		today[f.name] = f.node
	}
	for _, f := range o.fields { // a field or a variant that is gone is skipped
		if x := today[f.name]; x != nil {
			if err := readable(f.node, x, path+"."+f.name); err != nil {
				return err
			}
		}
	}
	return nil
}

func unfit(o, n *node, path string) error {
	if path != "" {
		path += ": "
	}
	return fmt.Errorf("%sstored as %s, which cannot be read into %s", path, o, n)
}
