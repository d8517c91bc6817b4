//go:build tools

// Package parts names the program, so that go.mod has all that it is built of.
package parts

import _ "github.com/Shopify/toxiproxy/v2/cmd/server"
