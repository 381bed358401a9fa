import { afterEach, beforeEach, expect, it } from 'vitest'
import { age, Lab, write } from './durability-fixture.ts'

let lab: Lab

beforeEach(() => {
  lab = new Lab()
})

afterEach(() => lab.remove())

it('no committed object is overwritten while a new one is still on its way', async () => {
  const a = lab.host()
  write(a, 'files/rewritten', 'old content')
  age(a, 'files/rewritten')
  await lab.snapshot(a)
  write(a, 'files/rewritten', 'new')
  write(a, 'files/new', 'new')
  for (const path of ['files/rewritten', 'files/new']) age(a, path, 1_100_000_000)

  const events: string[] = []
  let arrive!: () => void
  const onItsWay = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const put = lab.backend.put.bind(lab.backend)
  lab.backend.put = async (key, localPath, options) => {
    const name = key.slice(key.lastIndexOf('/') + 1)
    events.push(`${name} begins`)
    if (name === 'new') await onItsWay
    await put(key, localPath, options)
    events.push(`${name} is stored`)
  }
  const snapshot = lab.snapshot(a)
  while (!events.includes('new begins')) await turn()
  // Long enough for whatever does not wait.
  for (let n = 0; n < 50; n++) await turn()
  arrive()
  await snapshot
  expect(events.slice(0, 4)).toEqual(['new begins', 'new is stored', 'rewritten begins', 'rewritten is stored'])
})

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
