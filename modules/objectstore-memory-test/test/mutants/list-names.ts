import { mutant, type Mutant } from './mutant.ts'

const NAMES = 'listNames gives the names one level below a prefix'
const PAGES = 'listNames is complete beyond one page'

/** Faults of `listNames`. */
export const listNamesMutants: readonly Mutant[] = [
  mutant('listNames gives whole keys', [NAMES], (healthy) => ({
    listNames: async (prefix: string) => (await healthy.list(prefix)).map(({ key }) => key),
  })),
  mutant('listNames matches the raw prefix', [NAMES], (healthy) => ({
    listNames: async (prefix: string) => {
      const below = (await healthy.list('')).filter(({ key }) => key.startsWith(prefix))
      return [...new Set(below.map(({ key }) => key.slice(prefix.length).split('/').find(Boolean) ?? ''))]
    },
  })),
  mutant('listNames leaves out objects', [NAMES], (healthy) => ({
    listNames: async (prefix: string) => {
      const below = (await healthy.list(prefix)).map(({ key }) => key.slice(prefix === '' ? 0 : prefix.length + 1))
      return [...new Set(below.filter((path) => path.includes('/')).map((path) => path.split('/')[0] ?? ''))]
    },
  })),
  mutant('listNames gives the first page', [PAGES], (healthy) => ({
    listNames: async (prefix: string) => (await healthy.listNames(prefix)).slice(0, 20),
  })),
  mutant('listNames repeats the last name of a page', [PAGES], (healthy) => ({
    listNames: async (prefix: string) => {
      const all = await healthy.listNames(prefix)
      return all.flatMap((name, i) => (i % 20 === 19 ? [name, name] : [name]))
    },
  })),
]
