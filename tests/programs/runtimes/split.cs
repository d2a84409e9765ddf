// Methods with known shares of CPU time: 70 % and 30 %.
using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;

class Split {
    static double X;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Burn(double s) {
        var own = Process.GetCurrentProcess();
        var end = own.TotalProcessorTime.TotalSeconds + s;
        do {
            for (int i = 0; i < 200000; i++) X += i * i % 7;
            own.Refresh();
        } while (own.TotalProcessorTime.TotalSeconds < end);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Alpha(double s) { Burn(s); X++; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Beta(double s) { Burn(s); X++; }

    static void Main() { Alpha(.7); Beta(.3); }
}
