package flowtest

// Recode reads a snapshot and writes it again.
func Recode(b []byte) ([]byte, error) {
	s, err := decodeSnapshot(b)
	if err != nil {
		return nil, err
	}
	return encodeSnapshot(s), nil
}
