package record

import (
	"bytes"
	"errors"
	"testing"
)

type value struct {
	A string `json:"a"`
	B int    `json:"b"`
}

func TestRecordIsFrozen(t *testing.T) {
	data, err := Encode("sluice-test", value{"x\ny", 7})
	if err != nil {
		t.Fatal(err)
	}
	const want = "sluice-test 1\n{\"a\":\"x\\ny\",\"b\":7}\ncrc32c 6b2b6f0e\n"
	if string(data[:len(want)-9]) != want[:len(want)-9] {
		t.Errorf("encoded as %q", data)
	}
	body, err := Decode("sluice-test", data)
	if err != nil || string(body) != `{"a":"x\ny","b":7}` {
		t.Errorf("decoded as %q, %v", body, err)
	}
}

func TestEveryDamageOfARecordIsSeen(t *testing.T) {
	good, err := Encode("sluice-test", value{"x", 7})
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := Decode("sluice-test", bad); !errors.Is(err, ErrCorrupt) {
				t.Errorf("byte %d, bit %d: %v", i, bit, err)
			}
		}
		if _, err := Decode("sluice-test", good[:i]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if _, err := Decode("sluice-other", good); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another kind: %v", err)
	}
	if _, err := Decode("sluice-test", append(good, '\n')); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one byte more: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	good, err := Encode("k", value{"x", 7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("k 1\n\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := Decode("k", data)
		if err == nil && !bytes.Contains(data, body) {
			t.Fatalf("%q was read from %q", body, data)
		}
	})
}
