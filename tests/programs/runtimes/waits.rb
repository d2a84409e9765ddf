# For the seconds of its argument: three threads compute and share Ruby's lock, one and the main thread sleep.
def crunch(count)
  (1..count).sum { |i| i * i % 7 }
end

ends_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ARGV[0].to_f
goes_on = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) < ends_at }
threads = 3.times.map { Thread.new { crunch(50_000) while goes_on.call } }
threads << Thread.new { sleep 0.2 while goes_on.call }
sleep 0.2 while goes_on.call
threads.each(&:join)
