package launch

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sluiceio/sluice/flow/launch/param"
	"github.com/sluiceio/sluice/flow/setting"
)

func usage(w io.Writer, name string, set *param.Set) {
	fmt.Fprintf(w, `%s is a sluice job.

Usage:
  %[1]s [--PARAMETER=VALUE]... [--sluice.SETTING=VALUE]...   run in this process
  %[1]s plan [--json|--dot|-v] [--PARAMETER=VALUE]...        print the plan, run nothing
  %[1]s vet [--PARAMETER=VALUE]...                           check that the plan is deterministic and sound
  sluice submit %[1]s [-p PARAMETER=VALUE]...                run on a cluster
`, name)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if fields := set.Fields(); len(fields) > 0 {
		fmt.Fprintln(t, "\nParameters:")
		for _, f := range fields {
			fmt.Fprintf(t, "  --%s\t%s\t%s\t%s\n", f.Name, f.Type, def(f.Default), f.Help)
		}
	}
	fmt.Fprintln(t, "\nSettings of the engine:")
	for _, s := range setting.All() {
		if s.Later {
			continue
		}
		fmt.Fprintf(t, "  --%s%s\t%s\t%s\t%s\n", param.SettingPrefix, s.Name, s.Type, def(s.Default), s.Doc)
	}
	t.Flush()
	fmt.Fprintln(w, "\nOn a cluster they are given by sluice submit --set SETTING=VALUE.")
}

func def(text string) string {
	if text == "" {
		return ""
	}
	return "(default " + text + ")"
}
