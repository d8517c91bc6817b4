package io.deltasql.spark;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A connection to the process: messages with their length before them, UTF-8.
 *
 * <p>At its beginning both sides prove that they know the secret, which is never sent: whoever else
 * is on this machine can neither ask nor answer. `deltasql/spark/plugin/serving.py` is the other end.
 */
final class PluginChannel {
  private static final int CONNECT_MILLIS = 10_000;
  private static final SecureRandom RANDOM = new SecureRandom();

  final Process process;
  private final Socket socket = new Socket();
  private final DataInputStream in;
  private final DataOutputStream out;

  PluginChannel(Process process, int port, byte[] secret) throws IOException {
    this.process = process;
    try {
      socket.connect(
          new InetSocketAddress(InetAddress.getLoopbackAddress(), port), CONNECT_MILLIS);
      socket.setTcpNoDelay(true);
      socket.setSoTimeout(CONNECT_MILLIS);
      in = new DataInputStream(new java.io.BufferedInputStream(socket.getInputStream()));
      out = new DataOutputStream(new java.io.BufferedOutputStream(socket.getOutputStream()));
      authenticate(secret);
      // An answer takes as long as it takes: the lake's own settings bound it.
      socket.setSoTimeout(0);
    } catch (IOException error) {
      close();
      throw error;
    }
  }

  private void authenticate(byte[] secret) throws IOException {
    byte[] random = new byte[32];
    RANDOM.nextBytes(random);
    String ours = hex(random);
    String theirs = receive();
    send(proof(secret, "driver", theirs, ours) + "\n" + ours);
    String expected = proof(secret, "lake", theirs, ours);
    if (!MessageDigest.isEqual(
        receive().getBytes(StandardCharsets.UTF_8), expected.getBytes(StandardCharsets.UTF_8))) {
      throw new IOException("another program answers at its port");
    }
  }

  private static String proof(byte[] secret, String role, String theirs, String ours) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      String text = role + "\n" + theirs + "\n" + ours;
      return hex(mac.doFinal(text.getBytes(StandardCharsets.UTF_8)));
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException("every Java has HmacSHA256", error);
    }
  }

  /** The settings of Hadoop that the answer goes with, and in the lines below it the answer. */
  String ask(String catalog, String question) throws IOException {
    send(catalog + "\n" + question);
    return receive();
  }

  private void send(String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    out.writeInt(bytes.length);
    out.write(bytes);
    out.flush();
  }

  private String receive() throws IOException {
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  void close() {
    try {
      socket.close();
    } catch (IOException error) {
      // It is of no use any more, one way or the other.
    }
  }

  static String hex(byte[] bytes) {
    return java.util.HexFormat.of().formatHex(bytes);
  }
}
