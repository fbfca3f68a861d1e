/** Two threads that write adjacent fields of one object, in turns, until their methods are compiled. */
public class Shared {
    static final class Pair { volatile long first, second; }
    static final Pair PAIR = new Pair();
    static volatile int turn;

    static void first() {
        for (int round = 0; round < 50000; round++) {
            PAIR.first++;
            if (round % 20 == 0) {
                while (turn != 0) Thread.onSpinWait();
                turn = 1;
            }
        }
    }

    static void second() {
        for (int round = 0; round < 50000; round++) {
            PAIR.second++;
            if (round % 20 == 0) {
                while (turn != 1) Thread.onSpinWait();
                turn = 0;
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Thread one = new Thread(Shared::first, "first"), other = new Thread(Shared::second, "second");
        one.start();
        other.start();
        one.join();
        other.join();
    }
}
