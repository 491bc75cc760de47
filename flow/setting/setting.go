package setting

// Setting is one name of the list.
type Setting struct {
	Name    string
	Default string
	Doc     string
}

// All are the settings in the order of the documentation.
func All() []Setting { return nil }
