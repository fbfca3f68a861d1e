// Light processes of Java: see protocol.rs for the messages on standard input and output.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntConsumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.ObjectName;

public final class ManycoreLight {
    /** Buckets of times: as in manycore's histogram, 64 per power of two, below 2^40 ns. */
    private static final int BUCKETS = 2240;

    private static final PrintStream OUT = System.out;
    private static final AtomicLong BEGUN = new AtomicLong();
    private static final CountDownLatch BEGIN = new CountDownLatch(1);
    private static final CountDownLatch END = new CountDownLatch(1);
    private static final AtomicLongArray TIMES = new AtomicLongArray(BUCKETS);
    private static final AtomicLong ROUNDS = new AtomicLong();
    private static final AtomicLong FAILURES = new AtomicLong();
    private static final AtomicReference<String> FAILURE = new AtomicReference<>("");
    private static volatile IntConsumer work;
    private static volatile CountDownLatch workers;
    private static volatile boolean stop;
    private static volatile int sink;
    private static Thread[] alive = new Thread[0];

    /** Starts a virtual thread if this version of Java has them (21), else a platform thread. */
    private interface Starter {
        Thread start(Runnable body) throws ReflectiveOperationException;
    }

    private static final Starter STARTER = starter();

    private static boolean virtual() {
        return Runtime.version().feature() >= 21;
    }

    private static Starter starter() {
        if (!virtual()) {
            return body -> {
                Thread thread = new Thread(body);
                thread.setDaemon(true);
                thread.start();
                return thread;
            };
        }
        try {
            // Found by name, so that older compilers accept this file, too.
            var method = Thread.class.getMethod("startVirtualThread", Runnable.class);
            return body -> (Thread) method.invoke(null, body);
        } catch (NoSuchMethodException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String schedulers = virtual()
                ? "\tschedulers=" + System.getProperty("jdk.virtualThreadScheduler.parallelism",
                        Integer.toString(Runtime.getRuntime().availableProcessors()))
                : "";
        say("ready\tunit=" + (virtual() ? "virtual thread" : "platform thread") + schedulers
                + "\tversion=" + System.getProperty("java.vm.name") + " " + Runtime.version());
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            switch (words[0]) {
                case "start" -> start(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                case "look" -> say("look" + own());
                case "spin" -> spin(Long.parseLong(words[1]));
                case "io" -> files(Long.parseLong(words[1]), Integer.parseInt(words[2]), words[3]);
                case "end" -> {
                    END.countDown();
                    // Threads that never received work wait here.
                    BEGIN.countDown();
                    for (Thread thread : alive) {
                        thread.join();
                    }
                    say("gone");
                    System.exit(0);
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(1);
    }

    private static void start(int count, int step) throws Exception {
        Thread[] threads = new Thread[count];
        String refused = "";
        int made = 0;
        long began = System.nanoTime();
        try {
            for (; made < count; made++) {
                int number = made;
                threads[made] = STARTER.start(() -> live(number));
                if (step > 0 && made % step == 0) {
                    say("alive\t" + made);
                }
            }
        } catch (OutOfMemoryError error) {
            refused = "\trefused=" + error.getMessage().replaceAll("\\s+", " ");
        }
        alive = Arrays.copyOf(threads, made);
        while (BEGUN.get() < made) {
            Thread.sleep(1);
        }
        say("started\talive=" + made + "\tseconds=" + seconds(began) + refused);
    }

    private static void live(int number) {
        BEGUN.incrementAndGet();
        try {
            BEGIN.await();
            IntConsumer mine = work;
            if (mine != null) {
                mine.accept(number);
                workers.countDown();
            }
            END.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Committed bytes by the JVM's Native Memory Tracking, thread stacks included. */
    private static String own() throws Exception {
        Object said = ManagementFactory.getPlatformMBeanServer().invoke(
                new ObjectName("com.sun.management:type=DiagnosticCommand"), "vmNativeMemory",
                new Object[] {new String[] {"summary", "scale=b"}}, new String[] {String[].class.getName()});
        Matcher total = Pattern.compile("Total: reserved=\\d+, committed=(\\d+)").matcher((String) said);
        return total.find() ? "\town=" + total.group(1) : "";
    }

    private static void begin(IntConsumer what) {
        work = what;
        workers = new CountDownLatch(alive.length);
        BEGIN.countDown();
    }

    private static void spin(long milliseconds) throws InterruptedException {
        begin(number -> {
            int x = number;
            while (!stop) {
                for (int i = 0; i < 20000; i++) {
                    x = x * 1103515245 + 12345;
                }
                sink = x;
                if (virtual()) {
                    // Virtual threads have no time slices: without this the first ones would run alone.
                    Thread.yield();
                }
            }
        });
        say("spinning");
        Thread.sleep(milliseconds);
        stop = true;
        workers.await();
        say("spun");
    }

    private static void files(long milliseconds, int bytes, String folder) throws InterruptedException {
        byte[] data = "m".repeat(bytes).getBytes(StandardCharsets.US_ASCII);
        long began = System.nanoTime();
        begin(number -> rewrite(Path.of(folder, Integer.toString(number)).toString(), data));
        say("working");
        Thread.sleep(milliseconds);
        stop = true;
        // Rounds that have begun are completed and counted: leaving out the last ones would leave out the slow ones.
        workers.await();
        String seconds = seconds(began);
        List<String> latency = new ArrayList<>();
        for (int index = 0; index < BUCKETS; index++) {
            if (TIMES.get(index) > 0) {
                latency.add(index + ":" + TIMES.get(index));
            }
        }
        say("done\tseconds=" + seconds + "\toperations=" + ROUNDS + "\tfailed=" + FAILURES + "\twhy="
                + FAILURE.get() + "\tlatency=" + String.join(",", latency));
    }

    private static void rewrite(String name, byte[] data) {
        byte[] back = new byte[data.length];
        while (!stop) {
            long began = System.nanoTime();
            try (var file = new RandomAccessFile(name, "rw")) {
                file.write(data);
                file.seek(0);
                file.readFully(back);
            } catch (IOException error) {
                FAILURES.incrementAndGet();
                FAILURE.compareAndSet("", String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
                pause();
                continue;
            }
            TIMES.incrementAndGet(bucket(System.nanoTime() - began));
            ROUNDS.incrementAndGet();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static int bucket(long ns) {
        long time = Math.min(ns, (1L << 40) - 1);
        if (time < 64) {
            return (int) time;
        }
        int exponent = 63 - Long.numberOfLeadingZeros(time) - 6;
        return (int) (((exponent + 1) << 6) + (time >> exponent) - 64);
    }

    private static String seconds(long began) {
        return Double.toString((System.nanoTime() - began) / 1e9);
    }

    private static void say(String text) {
        OUT.println(text);
        OUT.flush();
    }
}
