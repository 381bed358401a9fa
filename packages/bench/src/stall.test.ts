import { describe, expect, it } from 'vitest'
import { withStall } from './stall.ts'

const BLOCKED_MS = 40

// By the clock of the CPU: on a busy machine the thread may be kept from running for much longer.
function block(): void {
  const before = process.cpuUsage()
  for (let used = 0; used < BLOCKED_MS * 1000;) {
    const { user, system } = process.cpuUsage(before)
    used = user + system
  }
}

describe('withStall', () => {
  it('sees a loop that is blocked in the midst of the work', async () => {
    const { stallMs } = await withStall(async () => {
      await new Promise((resolve) => setTimeout(resolve, 3))
      block()
      await new Promise((resolve) => setTimeout(resolve, 3))
    })
    expect(stallMs).toBeGreaterThan(BLOCKED_MS / 2)
  })

  it('sees work that is synchronous altogether', async () => {
    expect((await withStall(block)).stallMs).toBeGreaterThan(BLOCKED_MS / 2)
  })

  it('gives back what the work gave, and rejects as it does', async () => {
    expect((await withStall(() => Promise.resolve(5))).value).toBe(5)
    await expect(withStall(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
  })
})
