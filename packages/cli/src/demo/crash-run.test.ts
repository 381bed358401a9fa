import { expect, it } from 'vitest'
import { chooseKill } from './crash-run.ts'

const failpoints = { working: ['w1', 'w2'], hydration: ['h1'] }

it('chooses the same kill for the same seed', () => {
  for (const seed of [1, 2, 3]) expect(chooseKill(seed, failpoints)).toEqual(chooseKill(seed, failpoints))
})

it('kills in every way over many seeds', () => {
  const kinds = Array.from({ length: 200 }, (_, seed) => chooseKill(seed, failpoints).how)
  expect(new Set(kinds)).toEqual(new Set(['time', 'failpoint', 'hydration']))
})
