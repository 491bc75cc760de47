package codec

import (
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
)

// TestSpeedBid protects what a record pays for crossing a process border, against a codec written by hand for its type.
func TestSpeedBid(t *testing.T) {
	in, out := bids(256), make([]bid, 256)
	c := must(Of[bid](nil))(t)
	var hand, compiled []byte
	t.Run("encode", func(t *testing.T) {
		ratio.AtMost(t, 2, ratio.CPU, func(n int) {
			for i := range n {
				if i%len(in) == 0 {
					hand = hand[:0]
				}
				hand = handAppend(hand, &in[i%len(in)])
			}
		}, func(n int) {
			for i := range n {
				if i%len(in) == 0 {
					compiled = compiled[:0]
				}
				compiled, _ = c.Append(compiled, &in[i%len(in)])
			}
		})
	})
	hand, compiled = nil, nil
	for i := range in {
		hand = handAppend(hand, &in[i])
		compiled, _ = c.Append(compiled, &in[i])
	}
	t.Run("decode", func(t *testing.T) {
		ratio.AtMost(t, 1.5, ratio.CPU, func(n int) {
			var p []byte
			for i := range n {
				if i%len(in) == 0 {
					p = hand
				}
				p = handDecode(p, &out[i%len(in)])
			}
		}, func(n int) {
			var p []byte
			for i := range n {
				if i%len(in) == 0 {
					p = compiled
				}
				p, _ = c.Decode(p, &out[i%len(in)])
			}
		})
	})
}
