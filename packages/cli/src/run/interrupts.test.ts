import { expect, it, onTestFinished } from 'vitest'
import { Interrupts } from './interrupts.ts'

function watched(turnIds: string[]): { log: string[]; interrupts: Interrupts } {
  const log: string[] = []
  const interrupts = new Interrupts({
    cancel: async () => {
      log.push('cancel')
      return turnIds
    },
    stop: () => void log.push('stop'),
    note: () => undefined,
  })
  onTestFinished(() => interrupts.release())
  return { log, interrupts }
}
const settle = (): Promise<void> => new Promise(setImmediate)

it('cancels first, and stops at the second time before the turn has ended', async () => {
  const { log, interrupts } = watched(['turn-1'])
  interrupts.interrupt()
  await settle()
  expect([log, interrupts.isStopping]).toEqual([['cancel'], false])
  interrupts.interrupt()
  expect([log, interrupts.isStopping]).toEqual([['cancel', 'stop'], true])
})

it('cancels every turn anew', async () => {
  const { log, interrupts } = watched(['turn-1'])
  for (let turn = 0; turn < 3; turn++) {
    interrupts.interrupt()
    await settle()
    interrupts.turnEnded()
  }
  expect(log).toEqual(['cancel', 'cancel', 'cancel'])
})

it('stops at once when no turn is under way, and on a signal that asks the process to end', async () => {
  const idle = watched([])
  idle.interrupts.interrupt()
  await settle()
  expect(idle.log).toEqual(['cancel', 'stop'])
  const asked = watched(['turn-1'])
  process.emit('SIGTERM')
  expect(asked.log).toEqual(['stop'])
})
