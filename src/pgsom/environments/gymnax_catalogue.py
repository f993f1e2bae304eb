"""The environments of gymnax, a row each: its name there, and a line on what it is.

Images and tables are flattened. MNISTBandit-bsuite is left out, since it downloads its images when it is made;
``Flattened(GymnaxEnvironment("MNISTBandit-bsuite"))`` is it.
"""

GYMNAX: dict[str, str] = {
    "CartPole-v1": "balance a pole on a cart; 4 numbers, 2 actions, 500 steps",
    "Acrobot-v1": "swing a two-link arm up; 6 numbers, 3 actions, 500 steps",
    "MountainCar-v0": "rock a car uphill; 2 numbers, 3 actions, 200 steps",
    "MountainCarContinuous-v0": "the same by a force; 2 numbers, 1 continuous action, 999 steps",
    "Pendulum-v1": "swing a pendulum up and hold it; 3 numbers, 1 continuous action, 200 steps",
    "Reacher-misc": "bring a two-joint arm to a goal; 8 numbers, 2 continuous actions, 100 steps",
    "Swimmer-misc": "swim to a goal between urchins; 16 numbers, 2 continuous actions, 500 steps",
    "PointRobot-misc": "find a goal on a half-circle again and again; 6 numbers, 2 continuous actions, 100 steps",
    "Asterix-MinAtar": "collect treasure, avoid enemies; 10×10×4 flattened, 5 actions",
    "Breakout-MinAtar": "hit bricks with a ball; 10×10×4 flattened, 3 actions",
    "Freeway-MinAtar": "cross a road; 10×10×7 flattened, 3 actions",
    "Seaquest-MinAtar": "dive, shoot and surface; 10×10×10 flattened, 6 actions",
    "SpaceInvaders-MinAtar": "shoot aliens; 10×10×6 flattened, 4 actions",
    "Pong-misc": "hit a ball back; 30×40×3 flattened, 3 actions, 1,000 steps",
    "Catch-bsuite": "move under a falling ball; 10×5 flattened, 3 actions",
    "DeepSea-bsuite": "exploration: one good path; 8×8 flattened, 2 actions, 8 steps",
    "DiscountingChain-bsuite": "discounting: rewards come sooner or later; 2 numbers, 5 actions, 100 steps",
    "MemoryChain-bsuite": "memory: recall a bit of 5 steps ago; 3 numbers, 2 actions",
    "UmbrellaChain-bsuite": "credit assignment among noise; 3 numbers, 2 actions, 10 steps",
    "SimpleBandit-bsuite": "eleven arms, one pull; 1 constant, 11 actions",
    "BernoulliBandit-misc": "two arms of unknown chances; 4 numbers, 2 actions, 100 pulls",
    "GaussianBandit-misc": "a sure arm and a noisy one; 4 numbers, 2 actions, 100 pulls",
    "FourRooms-misc": "walk to a goal through four rooms; 4 numbers, 4 actions, 500 steps",
    "MetaMaze-misc": "find a goal in a maze again and again; 15 numbers, 4 actions, 200 steps",
    "FrozenLake-misc": "cross slippery ice; 16 states, 4 actions, 100 steps",
}
